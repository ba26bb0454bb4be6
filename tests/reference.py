"""The truth that tests compare with: slow sums over all pairs in float64, and awkward samples."""

import torch


def signed_weights(x, y):
    """(n + k,) 1/n on the samples x, −1/k on the samples y."""
    sides = ((x, 1 / len(x)), (y, -1 / len(y)))
    return torch.cat([torch.full_like(z, weight, dtype=torch.float64) for z, weight in sides])


def quadratic_form(z, q, kernel):
    """Value and gradient in z of Σ_ij q_i q_j (k(z_i − z_j) − k(0)), every pair once."""
    z = z.detach().double()
    block = 1 + 2**16 // len(z)  # a block fits in cache
    value, grad = z.new_zeros(()), torch.zeros_like(z)
    for start in range(0, len(z), block):
        here, right = slice(start, start + block), slice(start + block, None)
        distance = z[here, None] - z[start:]
        lowered, slope = torch.zeros_like(distance), torch.zeros_like(distance)
        for gamma in kernel.gammas:
            part = torch.expm1(-gamma * distance.square())
            lowered += part
            slope -= 2 * gamma * (part + 1)
        pairs = q[here, None] * q[start:]
        value += (pairs * lowered).sum() + (pairs * lowered)[:, block:].sum()
        force = 2 * pairs * slope * distance
        grad[here] += force.sum(1)
        grad[right] -= force[:, block:].sum(0)
    return kernel.weight * value, kernel.weight * grad


def exponential(n, generator):
    return torch.empty(n).exponential_(generator=generator)


def cross_entropy(n, generator):
    logits = 3 * torch.randn(n, 10, generator=generator)
    labels = torch.randint(10, (n,), generator=generator)
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def with_outlier(size):
    def risks(n, generator):
        values = exponential(n, generator)
        values[n // 3] = size
        return values

    return risks


def largest_floats(n, generator):
    values = exponential(n, generator)
    values[[1, n // 2]] = torch.finfo(torch.float32).max
    values[n - 1] = torch.finfo(torch.float32).min
    return values


def far_clusters(n, generator):
    values = torch.rand(n, generator=generator)
    values[::2] += 1000
    return values


SHAPES = {
    "exponential": exponential,
    "cross-entropy": cross_entropy,
    "one outlier of 1e6": with_outlier(1e6),
    "one outlier of 1e30": with_outlier(1e30),
    "the largest floats": largest_floats,
    "all equal": lambda n, generator: torch.full((n,), 0.7),
    "two far clusters": far_clusters,
    "Cauchy": lambda n, generator: torch.empty(n).cauchy_(generator=generator),
    "lognormal": lambda n, generator: torch.empty(n).log_normal_(0, 4, generator=generator),
    "around 1e-8": lambda n, generator: 1e-8 * exponential(n, generator),
    "around 1e12": lambda n, generator: 1e12 * exponential(n, generator),
    "far from zero": lambda n, generator: 1e5 + exponential(n, generator),
    "a lattice": lambda n, generator: torch.randint(5, (n,), generator=generator).float(),
}
"""Ways to draw n float32 risks, from the customary to the hostile."""


def risks(shape, n, dtype=torch.float32):
    """n risks of a shape, the same in every run."""
    generator = torch.Generator().manual_seed(n)
    values = SHAPES[shape](n, generator).to(dtype)
    if dtype == torch.float64 and shape not in ("all equal", "a lattice"):
        values *= 1 + 1e-9 * torch.rand(n, generator=generator)  # digits that float32 has not
    return values
