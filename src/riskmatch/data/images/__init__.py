"""Image data sets: index files, decode them once, feed them from memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.data.images.benchmark import Benchmark
    from riskmatch.data.images.benchmarks import BENCHMARKS
    from riskmatch.data.images.cache import image_domains
    from riskmatch.data.images.get import get_benchmark
    from riskmatch.data.images.index import ImageIndex, index_folder
    from riskmatch.data.images.manifest import index_manifest

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "ImageIndex",
    "get_benchmark",
    "image_domains",
    "index_folder",
    "index_manifest",
]

_HOMES = {
    "BENCHMARKS": "benchmarks",
    "Benchmark": "benchmark",
    "ImageIndex": "index",
    "get_benchmark": "get",
    "image_domains": "cache",
    "index_folder": "index",
    "index_manifest": "manifest",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that benchmarks can be listed without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
