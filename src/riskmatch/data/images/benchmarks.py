"""The five image benchmarks.

Numbers of images are those of DomainBed (Gulrajani and Lopez-Paz, ICLR 2021).
"""

from __future__ import annotations

from collections.abc import Mapping

from riskmatch.data.images import layouts
from riskmatch.data.images.archives import unpack_parquet
from riskmatch.data.images.benchmark import Benchmark, BenchmarkDomain, Download, Origin

LILA = (
    "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps",
    "https://lilawildlife.blob.core.windows.net/lila-wildlife/caltechcameratraps",
    "https://s3.us-west-2.amazonaws.com/us-west-2.opendata.source.coop/agentmorris/lila-wildlife/"
    "caltechcameratraps",
)
BU = "http://csr.bu.edu/ftp/visda/2019/multi-source"
DOMAINBED = (
    "https://raw.githubusercontent.com/facebookresearch/DomainBed/"
    "050aa5c866cb8010229ce1ebd2a6a34ea8103056/domainbed/misc"
)


def _domains(images: Mapping[str, int]) -> tuple[BenchmarkDomain, ...]:
    """Domains whose folders have the same name, with their number of images."""
    return tuple(BenchmarkDomain(name, number, name) for name, number in images.items())


def _drive(name: str, identity: str, md5: str | None = None) -> tuple[Download]:
    """A file on Google Drive, with URLs that skip the warning about its size."""
    urls = (
        f"https://drive.usercontent.google.com/download?id={identity}&export=download&confirm=t",
        f"https://drive.google.com/uc?id={identity}&export=download&confirm=t",
    )
    return (Download(name, urls, md5 and f"md5:{md5}"),)


def _hub(data: str, files: Mapping[str, str], checksum: str | None = None) -> Origin:
    """Parquet files of ``OWNER/NAME@REVISION`` on the Hugging Face hub: paths by local name."""
    downloads = (
        Download(name, (f"hf://datasets/{data}/{path}",), checksum) for name, path in files.items()
    )
    return Origin(tuple(downloads), unpack_parquet, package="pyarrow", extra="parquet")


PACS = Benchmark(
    "pacs",
    "PACS",
    parts=_domains({"art_painting": 2_048, "cartoon": 2_344, "photo": 1_670, "sketch": 3_929}),
    classes=7,
    class_names=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
    licence="not stated",
    citation="Li, Yang, Song, Hospedales. Deeper, Broader and Artier Domain Generalization. "
    "ICCV 2017. arXiv:1710.03077",
    page="http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017",
    megabytes=191,
    origins=(
        _hub(
            "flwrlabs/pacs@394113073258ead631f617d2e13bb377c0715c4b",
            {"pacs.parquet": "data/train-00000-of-00001.parquet"},
            "sha256:4fc041ee92eec6043fe6e2859e8bdd138e5f958bc621afd153879812cbe65ff5",
        ),
        Origin(
            _drive(
                "PACS.zip", "1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd", "fd5db817f7cdafeef3bfd525aaf9b42e"
            )
        ),
    ),
    spellings=("kfold",),
)

VLCS = Benchmark(
    "vlcs",
    "VLCS",
    parts=_domains({"Caltech101": 1_415, "LabelMe": 2_656, "SUN09": 3_282, "VOC2007": 3_376}),
    classes=5,
    class_names=layouts.VLCS_CLASSES,
    licence="not stated",
    citation="Fang, Xu, Rockmore. Unbiased Metric Learning: On the Utilization of Multiple "
    "Datasets and Web Images for Softening Bias. ICCV 2013.",
    page="http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017",
    megabytes=3_600,
    origins=(
        Origin(
            _drive(
                "VLCS.tar.gz",
                "1skwblH1_okBwxWxmRsp9_qi15hyPpxg8",
                "8870171eba660927d9668f4e515928e4",
            )
        ),
        Origin(
            _drive("vlcs.zip", "1r0WL5DDqKfSPp9E3tRENwHaXNs1olLZd"),
            layouts.convert_vlcs,
            caution="JiGen's images are the same as DomainBed's, but smaller (192 MB, not 3.6 GB): "
            "results may differ slightly from published ones",
        ),
    ),
)

OFFICEHOME = Benchmark(
    "officehome",
    "OfficeHome",
    parts=_domains({"Art": 2_427, "Clipart": 4_365, "Product": 4_439, "Real World": 4_357}),
    classes=65,
    licence="fair use, for research",
    citation="Venkateswara, Eusebio, Chakraborty, Panchanathan. Deep Hashing Network for "
    "Unsupervised Domain Adaptation. CVPR 2017.",
    page="https://www.hemanthdv.org/officeHomeDataset.html",
    megabytes=1_200,
    origins=(
        _hub(
            "flwrlabs/office-home@d430d44779e929b335be368ab3456484e5de36bb",
            {
                f"officehome-{shard}.parquet": f"data/train-{shard:05d}-of-00003.parquet"
                for shard in range(3)
            },
        ),
        Origin(
            _drive(
                "office_home.zip",
                "1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC",
                "b1c14819770c4448fd5b6d931031c91c",
            )
        ),
    ),
    spellings=("OfficeHomeDataset_10072016",),
)

TERRAINCOGNITA = Benchmark(
    "terraincognita",
    "TerraIncognita",
    parts=_domains(
        {"location_100": 4_879, "location_38": 9_767, "location_43": 4_020, "location_46": 6_122}
    ),
    classes=10,
    class_names=layouts.TERRA_CLASSES,
    licence="CDLA-Permissive 1.0",
    citation="Beery, Van Horn, Perona. Recognition in Terra Incognita. ECCV 2018. arXiv:1807.04975",
    page="https://lila.science/datasets/caltech-camera-traps",
    megabytes=6_000,
    origins=(
        Origin(
            tuple(
                Download(name, tuple(f"{base}/{folder}{name}" for base in LILA))
                for folder, name in (
                    ("labels/", layouts.TERRA_ANNOTATIONS),
                    ("", layouts.TERRA_IMAGES),
                )
            ),
            layouts.convert_terraincognita,
        ),
    ),
    reissued=24_330,
    spellings=("terrainc",),
)

DOMAINNET = Benchmark(
    "domainnet",
    "DomainNet",
    parts=(
        BenchmarkDomain("clip", 48_129, "clipart"),
        BenchmarkDomain("info", 51_605, "infograph"),
        BenchmarkDomain("paint", 72_266, "painting"),
        BenchmarkDomain("quick", 172_500, "quickdraw"),
        BenchmarkDomain("real", 172_947, "real"),
        BenchmarkDomain("sketch", 69_128, "sketch"),
    ),
    classes=345,
    licence="fair use, for research",
    citation="Peng, Bai, Xia, Huang, Saenko, Wang. Moment Matching for Multi-Source Domain "
    "Adaptation. ICCV 2019. arXiv:1812.01754",
    page="http://ai.bu.edu/M3SDA/",
    megabytes=18_500,
    origins=(
        Origin(
            (
                Download(
                    layouts.DOMAINNET_DUPLICATES, (f"{DOMAINBED}/{layouts.DOMAINNET_DUPLICATES}",)
                ),
                *(
                    Download(f"{path.rsplit('/', 1)[-1]}.zip", (f"{BU}/{path}.zip",), f"md5:{md5}")
                    for path, md5 in (
                        ("groundtruth/clipart", "cd0d8f2d77a4e181449b78ed62bccf1e"),
                        ("infograph", "720380b86f9e6ab4805bb38b6bd135f8"),
                        ("groundtruth/painting", "1ae32cdb4f98fe7ab5eb0a351768abfd"),
                        ("quickdraw", "bdc1b6f09f277da1a263389efe0c7a66"),
                        ("real", "dcc47055e8935767784b7162e7c7cca6"),
                        ("sketch", "658d8009644040ff7ce30bb2e820850f"),
                    )
                ),
            ),
            layouts.convert_domainnet,
        ),
        _hub(
            "wltjr1007/DomainNet@main",
            {
                f"domainnet-{shard}.parquet": f"data/{shard}.parquet"
                for shard in (
                    "test-00000-of-00001",
                    *(f"train-{number:05d}-of-00003" for number in range(3)),
                )
            },
        ),
    ),
)

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (PACS, VLCS, OFFICEHOME, TERRAINCOGNITA, DOMAINNET)
}
