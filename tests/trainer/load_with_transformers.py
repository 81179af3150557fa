"""Loads folders with transformers, in an interpreter that has torch and transformers.

    python load_with_transformers.py FOLDER ...

For each it prints a line of JSON: what is missing, unexpected or of another shape, whether the
decoder is tied to the embeddings, and the largest difference to the logits in its ours.npz. Two
texts go through the tokenizer and the model, too.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers


def logits_of(model: torch.nn.Module, arrays: dict, has_segments: bool) -> np.ndarray:
    """Returns the logits of a batch, for the tokens alone where each token has some."""
    ids, mask, segments = (
        torch.tensor(arrays[name]).long() for name in ("input_ids", "input_mask", "segment_ids")
    )
    inputs = {"input_ids": ids, "attention_mask": mask}
    inputs |= {"token_type_ids": segments} if has_segments else {}
    name = type(model).__name__
    if name.endswith("MultipleChoice"):
        inputs = {key: value[None] for key, value in inputs.items()}
    with torch.no_grad():
        outputs = model(**inputs)
    if name.endswith("QuestionAnswering"):
        return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1).numpy()
    found = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    return found.numpy()


def read_two_texts(path: pathlib.Path, model: torch.nn.Module) -> None:
    """Fails if the tokenizer gives the model an input that it has not, or an id out of range."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    inputs = tokenizer("a text", "another", truncation=True, return_tensors="pt")
    is_choice = type(model).__name__.endswith("MultipleChoice")
    model(**{key: value[None] if is_choice else value for key, value in inputs.items()})


def main() -> None:
    """Prints a line for each folder."""
    transformers.logging.set_verbosity_error()
    for path in map(pathlib.Path, sys.argv[1:]):
        config = json.loads((path / "config.json").read_text())
        of = getattr(transformers, config["architectures"][0])
        model, loading = of.from_pretrained(path, output_loading_info=True)
        arrays = dict(np.load(path / "ours.npz"))
        has_segments = config["model_type"] in ("bert", "albert", "electra")
        found = logits_of(model.eval(), arrays, has_segments)
        read_two_texts(path, model)
        ours = arrays["logits"].reshape(found.shape)
        if found.ndim > 2 or type(model).__name__ == "ElectraForPreTraining":
            is_token = arrays["input_mask"] > 0
            found, ours = found[is_token], ours[is_token]
        decoder = model.get_output_embeddings()
        table = model.get_input_embeddings().weight
        answer = {
            "issues": {key: sorted(map(str, value)) for key, value in loading.items() if value},
            "is_tied": decoder is None or decoder.weight.data_ptr() == table.data_ptr(),
            "difference": float(np.abs(found - ours).max()),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
