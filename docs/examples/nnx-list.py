from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.layers = [nnx.Linear(3, 3, rngs=rngs) for _ in range(2)]


Net(nnx.Rngs(0))
