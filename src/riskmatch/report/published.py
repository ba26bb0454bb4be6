"""The numbers that the paper prints, to show beside ours.

Table 2 and the tables by test domain hold the accuracy on the image benchmarks in per cent, with
models chosen by the validation sets of the training domains. The rows of other methods are those of
Eastwood et al., Probable Domain Generalization via Quantile Risk Minimization, NeurIPS 2022, and of
Shi et al., Gradient Matching for Domain Generalization, ICLR 2022 (Fish).
"""

from __future__ import annotations

from typing import NamedTuple

PAPER = "Nguyen et al., Domain Generalisation via Risk Distribution Matching, WACV 2024"
TABLE1_CITATION = (
    f"{PAPER}, Table 1; all rows but RDM's are those of Eastwood et al., Probable Domain "
    "Generalization via Quantile Risk Minimization, NeurIPS 2022"
)


class Published(NamedTuple):
    """A mean, and the number printed after ±."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.error:.1f}"


class PublishedRow(NamedTuple):
    """A method in a table."""

    columns: dict[str, Published]
    """By domain, or by data set; empty where only the average is printed."""
    average: float


class PublishedCost(NamedTuple):
    """What training a method on a data set costs; all methods on one GPU with equal settings."""

    seconds: int
    """Training time."""
    memory: float
    """GiB per step."""
    accuracy: float
    """Accuracy in per cent."""


def _table(columns: str, lines: str) -> dict[str, PublishedRow]:
    """Parse a table: rows by method, from the text of its header and of its lines."""
    names = columns.split()
    return {
        cells[0].lower(): PublishedRow(
            {
                name.replace("~", " "): Published(*map(float, cell.split("±")))
                for name, cell in zip(names, cells[1:-1], strict=True)
                if cell != "-"
            },
            float(cells[-1]),
        )
        for cells in map(str.split, lines.strip().splitlines())
    }


TABLE2 = _table(
    "vlcs pacs officehome terraincognita domainnet",
    """
        ERM        77.5±0.4  85.5±0.2  66.5±0.3  46.1±1.8  40.9±0.1      63.3
        Mixup      77.4±0.6  84.6±0.6  68.1±0.3  47.9±0.8  39.2±0.1      63.4
        MLDG       77.2±0.4  84.9±1.0  66.8±0.6  47.7±0.9  41.2±0.1      63.6
        GroupDRO   76.7±0.6  84.4±0.8  66.0±0.7  43.2±1.1  33.3±0.2      60.9
        IRM        78.5±0.5  83.5±0.8  64.3±2.2  47.6±0.8  33.9±2.8      61.6
        VREx       78.3±0.2  84.9±0.6  66.4±0.6  46.4±0.6  33.6±2.9      61.9
        EQRM       77.8±0.6  86.5±0.2  67.5±0.1  47.8±0.6  41.0±0.3      64.1
        Fish       77.8±0.3  85.5±0.3  68.6±0.4  45.1±1.3  42.7±0.2      64.0
        Fishr      77.8±0.1  85.5±0.4  67.8±0.1  47.4±1.6  41.7±0.0      64.0
        CORAL      78.8±0.6  86.2±0.3  68.7±0.3  47.6±1.0  41.5±0.1      64.6
        MMD        77.5±0.9  84.6±0.5  66.3±0.1  42.2±1.6  23.4±9.5      63.3
        RDM        78.4±0.4  87.2±0.7  67.3±0.4  47.5±1.0  43.4±0.3      64.8
    """,
)
"""Table 2: accuracy by method and data set."""

PER_DOMAIN = {
    "vlcs": _table(
        "Caltech101 LabelMe SUN09 VOC2007",
        """
        ERM        97.7±0.4  64.3±0.9  73.4±0.5  74.6±1.3      77.5
        Mixup      98.3±0.6  64.8±1.0  72.1±0.5  74.3±0.8      77.4
        MLDG       97.4±0.2  65.2±0.7  71.0±1.4  75.3±1.0      77.2
        GroupDRO   97.3±0.3  63.4±0.9  69.5±0.8  76.7±0.7      76.7
        IRM        98.6±0.1  64.9±0.9  73.4±0.6  77.3±0.9      78.5
        VREx       98.4±0.3  64.4±1.4  74.1±0.4  76.2±1.3      78.3
        EQRM       98.3±0.0  63.7±0.8  72.6±1.0  76.7±1.1      77.8
        Fish              -         -         -         -      77.8
        Fishr      98.9±0.3  64.0±0.5  71.5±0.2  76.8±0.7      77.8
        CORAL      98.3±0.1  66.1±1.2  73.4±0.3  77.5±1.2      78.8
        MMD        97.7±0.1  64.0±1.1  72.8±0.2  75.3±3.3      77.5
        RDM        98.1±0.2  64.9±0.7  72.6±0.5  77.9±1.2      78.4
        """,
    ),
    "pacs": _table(
        "art_painting cartoon photo sketch",
        """
        ERM        84.7±0.4  80.8±0.6  97.2±0.3  79.3±1.0      85.5
        Mixup      86.1±0.5  78.9±0.8  97.6±0.1  75.8±1.8      84.6
        MLDG       85.5±1.4  80.1±1.7  97.4±0.3  76.6±1.1      84.9
        GroupDRO   83.5±0.9  79.1±0.6  96.7±0.3  78.3±2.0      84.4
        IRM        84.8±1.3  76.4±1.1  96.7±0.6  76.1±1.0      83.5
        VREx       86.0±1.6  79.1±0.6  96.9±0.5  77.7±1.7      84.9
        EQRM       86.5±0.4  82.1±0.7  96.6±0.2  80.8±0.2      86.5
        Fish              -         -         -         -      85.5
        Fishr      88.4±0.2  78.7±0.7  97.0±0.1  77.8±2.0      85.5
        CORAL      88.3±0.2  80.0±0.5  97.5±0.3  78.8±1.3      86.2
        MMD        86.1±1.4  79.4±0.9  96.6±0.2  76.5±0.5      84.6
        RDM        88.4±0.2  81.3±1.6  97.1±0.1  81.8±1.1      87.2
        """,
    ),
    "officehome": _table(
        "Art Clipart Product Real~World",
        """
        ERM        61.3±0.7  52.4±0.3  75.8±0.1  76.6±0.3      66.5
        Mixup      62.4±0.8  54.8±0.6  76.9±0.3  78.3±0.2      68.1
        MLDG       61.5±0.9  53.2±0.6  75.0±1.2  77.5±0.4      66.8
        GroupDRO   60.4±0.7  52.7±1.0  75.0±0.7  76.0±0.7      66.0
        IRM        58.9±2.3  52.2±1.6  72.1±2.9  74.0±2.5      64.3
        VREx       60.7±0.9  53.0±0.9  75.3±0.1  76.6±0.5      66.4
        EQRM       60.5±0.1  56.0±0.2  76.1±0.4  77.4±0.3      67.5
        Fish              -         -         -         -      68.6
        Fishr      62.4±0.5  54.4±0.4  76.2±0.5  78.3±0.1      67.8
        CORAL      65.3±0.4  54.4±0.5  76.5±0.1  78.4±0.5      68.7
        MMD        60.4±0.2  53.3±0.3  74.3±0.1  77.4±0.6      66.3
        RDM        61.1±0.4  55.1±0.3  75.7±0.5  77.3±0.3      67.3
        """,
    ),
    "terraincognita": _table(
        "location_100 location_38 location_43 location_46",
        """
        ERM        49.8±4.4  42.1±1.4  56.9±1.8  35.7±3.9      46.1
        Mixup      59.6±2.0  42.2±1.4  55.9±0.8  33.9±1.4      47.9
        MLDG       54.2±3.0  44.3±1.1  55.6±0.3  36.9±2.2      47.7
        GroupDRO   41.2±0.7  38.6±2.1  56.7±0.9  36.4±2.1      43.2
        IRM        54.6±1.3  39.8±1.9  56.2±1.8  39.6±0.8      47.6
        VREx       48.2±4.3  41.7±1.3  56.8±0.8  38.7±3.1      46.4
        EQRM       47.9±1.9  45.2±0.3  59.1±0.3  38.8±0.6      47.8
        Fish              -         -         -         -      45.1
        Fishr      50.2±3.9  43.9±0.8  55.7±2.2  39.8±1.0      47.4
        CORAL      51.6±2.4  42.2±1.0  57.0±1.0  39.8±2.9      47.6
        MMD        41.9±3.0  34.8±1.0  57.0±1.9  35.2±1.8      42.2
        RDM        52.9±1.2  43.1±1.0  58.1±1.3  36.1±2.9      47.5
        """,
    ),
    "domainnet": _table(
        "clip info paint quick real sketch",
        """
        ERM        58.1±0.3  18.8±0.3  46.7±0.3  12.2±0.4  59.6±0.1  49.8±0.4      40.9
        Mixup      55.7±0.3  18.5±0.5  44.3±0.5  12.5±0.4  55.8±0.3  48.2±0.5      39.2
        MLDG       59.1±0.2  19.1±0.3  45.8±0.7  13.4±0.3  59.6±0.2  50.2±0.4      41.2
        GroupDRO   47.2±0.5  17.5±0.4  33.8±0.5   9.3±0.3  51.6±0.4  40.1±0.6      33.3
        IRM        48.5±2.8  15.0±1.5  38.3±4.3  10.9±0.5  48.2±5.2  42.3±3.1      33.9
        VREx       47.3±3.5  16.0±1.5  35.8±4.6  10.9±0.3  49.6±4.9  42.0±3.0      33.6
        EQRM       56.1±1.3  19.6±0.1  46.3±1.5  12.9±0.3  61.1±0.0  50.3±0.1      41.0
        Fish              -         -         -         -         -         -      42.7
        Fishr      58.2±0.5  20.2±0.2  47.7±0.3  12.7±0.2  60.3±0.2  50.8±0.1      41.7
        CORAL      59.2±0.1  19.7±0.2  46.6±0.3  13.4±0.4  59.8±0.2  50.1±0.6      41.5
        MMD       32.1±13.3  11.0±4.6 26.8±11.3   8.7±2.1 32.7±13.8 28.9±11.9      23.4
        RDM        62.1±0.2  20.7±0.1  49.2±0.4  14.1±0.4  63.0±1.3  51.4±0.1      43.4
        """,
    ),
}
"""Tables 6 to 10: by data set, method and test domain; Fish is printed without its domains."""

WRONG_AVERAGES = {"groupdro": 60.7, "mmd": 58.8}
"""The averages of the columns of Table 2, where the printed ones differ by more than rounding."""

TABLE1: dict[tuple[str, str], Published] = {
    ("erm", "random"): Published(27.9, 1.5),
    ("erm", "erm"): Published(27.9, 1.5),
    ("groupdro", "random"): Published(27.3, 0.9),
    ("groupdro", "erm"): Published(29.0, 1.1),
    ("iga", "random"): Published(50.7, 1.4),
    ("iga", "erm"): Published(57.7, 3.3),
    ("irm", "random"): Published(52.5, 2.4),
    ("irm", "erm"): Published(69.7, 0.9),
    ("vrex", "random"): Published(55.2, 4.0),
    ("vrex", "erm"): Published(71.6, 0.5),
    ("eqrm", "random"): Published(53.4, 1.7),
    ("eqrm", "erm"): Published(71.4, 0.4),
    ("coral", "random"): Published(55.3, 2.8),
    ("coral", "erm"): Published(65.6, 1.1),
    ("mmd", "random"): Published(54.6, 3.2),
    ("mmd", "erm"): Published(66.4, 1.7),
    ("rdm", "random"): Published(56.3, 1.5),
    ("rdm", "erm"): Published(72.4, 1.0),
    ("oracle", "random"): Published(72.1, 0.7),
}
"""Table 1: accuracy on the test domain of ColoredMNIST, mean and standard deviation over ten seeds,
by method and initialisation."""
TABLE1_OPTIMUM = 75.0
"""Accuracy of a model that reads the shape perfectly and ignores the colour."""

EFFICIENCY: dict[str, dict[str, PublishedCost]] = {
    "pacs": {
        "fish": PublishedCost(7_566, 7.97, 85.5),
        "coral": PublishedCost(4_485, 21.81, 86.2),
        "rdm variance": PublishedCost(4_783, 21.87, 86.6),
        "rdm": PublishedCost(4_214, 21.71, 87.2),
    },
    "vlcs": {
        "fish": PublishedCost(13_493, 7.97, 77.8),
        "coral": PublishedCost(6_329, 21.81, 78.8),
        "rdm variance": PublishedCost(9_441, 21.87, 77.8),
        "rdm": PublishedCost(6_151, 21.71, 78.4),
    },
    "officehome": {
        "fish": PublishedCost(9_035, 7.97, 68.6),
        "coral": PublishedCost(4_762, 21.81, 68.7),
        "rdm variance": PublishedCost(5_467, 21.87, 67.0),
        "rdm": PublishedCost(4_588, 21.71, 67.3),
    },
    "terraincognita": {
        "fish": PublishedCost(6_019, 4.08, 45.1),
        "coral": PublishedCost(2_973, 10.21, 47.6),
        "rdm variance": PublishedCost(4_040, 10.17, 47.1),
        "rdm": PublishedCost(2_697, 10.11, 47.5),
    },
    "domainnet": {
        "fish": PublishedCost(11_502, 5.26, 42.7),
        "coral": PublishedCost(11_504, 17.00, 41.5),
        "rdm variance": PublishedCost(9_854, 16.94, 43.1),
        "rdm": PublishedCost(7_749, 16.23, 43.4),
    },
}
"""Tables 3 and 5, by data set and method: ``rdm`` matches the worst domain (L̂), ``rdm variance``
every domain (L)."""
