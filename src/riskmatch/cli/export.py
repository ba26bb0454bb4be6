"""``riskmatch export``: write a model as ONNX, or as a program of torch.export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import riskmatch
from riskmatch.cli.errors import prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import print_json, printable


@dataclass
class Export(Printed, Command):
    """Export a model for programs without riskmatch, and check it on real inputs.

    The file takes batches of any size; normalisation is inside. How images are resized, and the
    classes, are in its metadata. It is written only if its outputs equal torch's to 1e-4.

    Example:
      riskmatch export runs/3f2a…/model --format onnx
    """

    model: Positional[Path]
    """Folder of the model, as riskmatch train --all-domains writes it."""
    format: Literal["onnx", "torch"] = "onnx"
    """ONNX, which needs riskmatch[export], or torch.export."""
    out: Path | None = None
    """File to write, .onnx or .pt2; by default model.onnx or model.pt2 in the model folder."""
    inputs: str | None = None
    """Real inputs to check on, as of riskmatch predict; by default the data of training."""
    overwrite: bool = False
    """Without --out: replace a file of that name even if riskmatch did not export it."""
    data_dir: Path | None = None
    """Folder searched first for the data of training."""

    def execute(self) -> None:
        """Export, check and print the path."""
        if self.out is not None:
            prepare_output(self.out, "--out", (".onnx", ".pt2"))
        exported = riskmatch.export(**self.arguments())
        if self.json:
            print_json({**vars(exported), "path": str(exported.path)})
        elif not self.quiet:
            taken = exported.metadata["input"]
            shape = ", ".join(map(str, taken["shape"]))
            what = {
                "images": "RGB images, resized as its metadata state",
                "table": "rows of load_model(…).preprocessing.transform(table)",
            }.get(exported.metadata["preprocessing"]["kind"], "inputs of the network")
            print(f"{printable(exported.path)} takes ({shape}), {taken['dtype']}: {what}")
            agreement = f"{exported.difference:.1g} on {exported.checked} real inputs"
            print(f"outputs agree with torch to {agreement}")
