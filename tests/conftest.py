"""What every test shares: JAX on the CPU, whatever the machine has."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
