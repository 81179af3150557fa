#!/bin/sh
# A domain encoder from a general one, a domain's text and general text, and what it is worth.
# docs/pretraining.md explains the steps and has the figures of such a run.
#
#     examples/domain/encoder.sh ENCODER DOMAIN GENERAL TASK OUTPUT
#     LENGTH=32 STEPS=800 FLAGS='--optimizer=muon --learning_rate=1e-3' examples/domain/encoder.sh \
#         general-encoder biomedical/text.txt 'wiki/*,books/*.txt' biomedical/task biomedical/run
#
# ENCODER is a BERT: a folder of `beambert pretrain`, or one of Hugging Face. One without a masked-LM
# head, such as all-MiniLM-L6-v2, gets a new one, which the first hundreds of steps must teach, and
# has no scores before. DOMAIN and GENERAL are patterns of text files, with commas between several.
# TASK has train.conll, dev.conll and test.conll, or with KIND=classification train.tsv, dev.tsv and
# test.tsv with the columns text and label. Each training takes STEPS steps of 64 sequences of LENGTH
# tokens, with FLAGS for others of `beambert pretrain`; those above are for a width of 128. Given again,
# each command goes on or has nothing to do; only scores and evaluations are made anew.
set -eu
if [ $# -ne 5 ]; then
    echo "usage: $0 ENCODER DOMAIN GENERAL TASK OUTPUT" >&2
    exit 2
fi
missing() {
    echo "$0: $1" >&2
    exit 2
}
command -v beambert >/dev/null ||
    missing 'there is no command beambert; in its folder give: export PATH="$PWD/.venv/bin:$PATH"'
encoder=$1 domain=$2 general=$3 task=$4 output=$5
length=${LENGTH:-128} steps=${STEPS:-1000} kind=${KIND:-tagging}
ending=tsv
if [ "$kind" = tagging ]; then ending=conll; fi
for file in "$encoder/vocab.txt" "$task/train.$ending" "$task/dev.$ending" "$task/test.$ending"; do
    [ -f "$file" ] || missing "there is no $file"
done
records=$output/records encoders=$output/encoders

# The domain's 1,000 pieces that save most tokens, behind the tokens of the encoder.
mkdir -p "$output"
beambert vocab --source=domain="$domain" --extend="$encoder" --add=1000 \
    --output="$output/vocab.txt"

# Records of text that the task's dev and test sentences are not in. 1 % of each source is held out,
# the same documents for every vocabulary and mixture.
make_records() { # NAME VOCABULARY SOURCES
    name=$1 vocabulary=$2
    shift 2
    beambert data "$@" --vocab_file="$vocabulary" --output="$records/$name" \
        --max_seq_length="$length" --pairs=none --masks=whole_word --dupe_factor=1 \
        --eval_fraction=0.01 --decontaminate "$task/dev.$ending" "$task/test.$ending"
}
make_records old-words "$encoder/vocab.txt" \
    --source=domain="$domain" --source=general="$general" --weights=domain=0.75,general=0.25
make_records new-words "$output/vocab.txt" \
    --source=domain="$domain" --source=general="$general" --weights=domain=0.75,general=0.25
make_records domain-alone "$output/vocab.txt" --source=domain="$domain"
beambert verify "$records/new-words" --output="$output/verification"

# All are evaluated on the same held-out documents, cut by their own vocabulary.
train() { # NAME HELD_OUT
    name=$1 held_out=$2
    set -- ${FLAGS:-}
    beambert pretrain --init="$encoder" --data="$records/$name" --model_dir="$encoders/$name" \
        --eval_data=domain="$records/$held_out/eval/domain" \
        --eval_data=general="$records/$held_out/eval/general" \
        --init_positions=tile --objective=mlm \
        --num_train_steps="$steps" --train_batch_size=64 --eval_steps=400 "$@"
}
train old-words old-words
train new-words new-words
train domain-alone new-words
beambert compare "$encoders/old-words" "$encoders/new-words" "$encoders/domain-alone"

# How likely are sentences that no training saw? By character, which compares the vocabularies. They
# have so few words and characters that their tokens, of two characters or more in the mean, stand
# at positions that were trained. `score` refuses others; then the rest goes on without scores.
if [ "$kind" = tagging ]; then
    awk '!NF || FNR == 1 { print "" } NF { printf "%s ", $1 } END { print "" }' \
        "$task/dev.conll" "$task/test.conll"
else
    tail -q -n +2 "$task/dev.tsv" "$task/test.tsv" | cut -f 1
fi |
    awk -v words="$((length * 3 / 8))" -v characters="$((length * 2 - 4))" '
        { text = $0; gsub(/ /, "", text) }
        NF && NF <= words && length(text) <= characters
    ' | head -n 200 >"$output/sentences.txt"
for name in before old-words new-words domain-alone; do
    model=$encoders/$name
    if [ "$name" = before ]; then model=$encoder; fi
    beambert score --model="$model" --whole_words --input="$output/sentences.txt" \
        --output="$output/scores-$name.jsonl" || echo "no scores of $name" >&2
    # The task, from each of them.
    beambert finetune --task="$kind" --data_dir="$task" --init="$model" --init_positions=tile \
        --model_dir="$output/task/$name" --max_seq_length=64
    beambert evaluate --task="$kind" --data_dir="$task" --split=test --slices=none \
        --model="$output/task/$name" --output="$output/evaluation/$name"
done

if [ ! -d "$output/domain-encoder" ]; then
    beambert export --model="$encoders/new-words" --to=huggingface --license=apache-2.0 \
        --output="$output/domain-encoder"
fi
