import optax

warmup, decay = 1000, 500

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, warmup, decay)
