"""The shares of the text that a held-out split has, and a warning where they are not as wanted."""

from collections.abc import Mapping

from beambert.pipelines.records.contract import RecordsInfo

# A share may differ from --eval_fraction by so much of it.
TOLERANCE = 0.25


def held_out_shares(
    training: RecordsInfo, held_out: RecordsInfo, source: str | None = None
) -> dict[str, float]:
    """Returns the shares that are held out of the documents, tokens and instances, and of sources.

    Args:
      training, held_out: info.json of the two splits, of the same length.
      source: name of the only source of the held-out folder; None for all sources.

    Returns:
      unit -> share; the tokens of each source, if there are several, are units too.
    """
    counts = [info.counts for info in (held_out, training)]
    units = {
        "documents": [count["documents"]["used"] for count in counts],
        "tokens": [count["tokens"] for count in counts],
        "instances": [count["instances"] for count in counts],
    }
    sources: list[Mapping] = [count.get("sources", {}) for count in counts]
    if source is not None:
        of_source = [one_source[source] for one_source in sources]
        units = {unit: [each[unit] for each in of_source] for unit in ("documents", "tokens")}
    elif len(sources[0]) > 1:
        for name in sources[0]:
            units[f"tokens of {name}"] = [one_source[name]["tokens"] for one_source in sources]
    return {name: out / (out + rest) for name, (out, rest) in units.items() if out + rest}


def describe_shares(shares: Mapping[str, float], eval_fraction: float) -> str:
    """Returns the line about the shares of a held-out split."""
    listed = ", ".join(f"{share:.2%} of the {unit}" for unit, share in shares.items())
    return f"  held out: {listed} (--eval_fraction={eval_fraction:g})"


def share_warning(shares: Mapping[str, float], eval_fraction: float) -> str:
    """Returns the warning about shares that differ by more than `TOLERANCE`; empty if none does.

    Of a long document only a stretch is held out, so the share of the documents may be any.
    """
    least, most = ((1 + sign * TOLERANCE) * eval_fraction for sign in (-1, 1))
    wrong = {
        unit: share
        for unit, share in shares.items()
        if unit != "documents" and not least <= share <= most
    }
    if not wrong:
        return ""
    listed = ", ".join(f"{share:.2%} of the {unit}" for unit, share in wrong.items())
    return (
        f"--eval_fraction={eval_fraction:g} held out {listed}: the corpus is so small that single "
        "documents decide it; raise --eval_fraction, or give more text"
    )
