"""The page of another tokenizer than BERT's shows its tokens as word pieces."""

from support.sample_text import WORDS
from support.tokenizer_kinds import ALBERT, ROBERTA, train
from tokenizers import Tokenizer

from beambert.explore.command import main
from beambert.explore.material import NO_MODEL, Material


def test_the_page_of_a_byte_level_bpe(tmp_path):
    folder = tmp_path / ROBERTA
    folder.mkdir()
    train(ROBERTA, [" ".join(WORDS)] * 3, 330).save(str(folder / "tokenizer.json"))
    material = Material(tokenizer=str(folder))
    text = "the river ended in the village"
    ids, _ = material.tokenizer(NO_MODEL).tokenize_batch([text])
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert ids.tolist() == reference.encode(text, add_special_tokens=False).ids
    assert material.token_ids(NO_MODEL).mask == reference.token_to_id("<mask>")
    main([f"--tokenizer={folder}", f"--output={tmp_path / 'page.html'}"])
    page = (tmp_path / "page.html").read_text()
    assert "[MASK]" in page and "Ġ" not in page


def test_the_case_of_text_is_that_of_the_tokenizer(tmp_path):
    for kind, lowers in ((ALBERT, True), (ROBERTA, False)):
        file = tmp_path / f"{kind}.json"
        train(kind, WORDS * 3, 300).save(str(file))
        assert Material(tokenizer=str(file)).language.do_lower_case is lowers
