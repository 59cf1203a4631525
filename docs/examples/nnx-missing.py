from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(3, 4)


Net(nnx.Rngs(0))
