"""Names of the objectives of pre-training; this module needs only the standard library."""

# Masked LM and next sentence prediction (Devlin et al. 2019, section 3.1).
BERT = "bert"
# Masked LM alone (RoBERTa; Liu et al. 2019, arXiv 1907.11692, section 4.2).
MLM = "mlm"
# Masked LM and sentence-order prediction (ALBERT; Lan et al. 2019, arXiv 1909.11942, section 3.1).
SOP = "sop"
# Masked LM and the recognition of noisy copies (`beambert data --pairs=copy`).
COPY = "copy"
# Replaced token detection (ELECTRA; Clark et al. 2020, arXiv 2003.10555, section 2).
RTD = "rtd"
OBJECTIVES = (BERT, MLM, SOP, COPY, RTD)
# Objective with a label of a record's two segments -> the name of what is predicted, in metrics and
# logits.
PAIR_TASKS = {BERT: "next_sentence", SOP: "sentence_order", COPY: "copy"}
# Width of the generator of replaced token detection as a share of the encoder's
# (configure_pretraining.py of the original ELECTRA, generator_hidden_size).
GENERATOR_SIZE = 0.25
# Depth of DeBERTa-v3's generator as a share of the encoder's, whose width it has (rtd_base.json
# and its neighbours in experiments/language_model of the original; arXiv 2111.09543).
GENERATOR_DEPTH = 0.5
