"""Small models: one thread is faster, and sums are added in one order."""

import importlib.util

if importlib.util.find_spec("torch"):
    import torch

    torch.set_num_threads(1)
