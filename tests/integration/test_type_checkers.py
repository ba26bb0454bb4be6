"""What mypy makes of a user's script: it starts from nothing, which takes half a minute."""

import subprocess
import sys
import textwrap


def test_type_checkers_see_the_types(tmp_path):
    script = tmp_path / "typed.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch
            from riskmatch import RiskMatching, nonsense
            from riskmatch.objectives import RDM

            out = RiskMatching(weight=5.0)(torch.rand(2), ["a", "b"])
            reveal_type(out)
            reveal_type(RDM(weight=5.0))
            """
        ),
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    lines = done.stdout.splitlines()
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "nonsense" in errors[0]
    assert any("Revealed type" in line and "Matching" in line for line in lines)
    assert any("Revealed type" in line and "RDM" in line for line in lines)
