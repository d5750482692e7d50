"""Judges the claims of the text by the table of the sweep. It fails if one does not hold."""

import sys

import pandas as pd

MEAN = "write_amplification"


def main(path: str) -> int:
    """Prints a verdict for each claim."""
    rows = pd.read_parquet(path)
    assert rows["error"].isna().all(), rows["error"].dropna().iloc[0]
    rows["spare"] = rows["ftl.over-provisioning"].astype(float)
    rows["victim"] = rows["ftl.victim"].str.strip('"')
    means = rows.pivot_table(MEAN, "spare", "victim")
    claims = {
        "more spare space lowers write amplification": bool(
            means["greedy"].is_monotonic_decreasing and means["cost-benefit"].is_monotonic_decreasing
        ),
        "greedy is at least as good under uniform writes": bool(
            (means["greedy"] <= means["cost-benefit"] * 1.02).all()
        ),
    }
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'fails'}: {claim}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
