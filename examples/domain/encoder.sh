#!/bin/sh
# A domain encoder from a published one, a domain's text and general text, and what it is worth.
# docs/domain.md explains the steps and has the figures of such a run.
#
#     examples/domain/encoder.sh ENCODER DOMAIN GENERAL TASK OUTPUT
#     STEPS=300 examples/domain/encoder.sh all-MiniLM-L6-v2 biomedical/text.txt \
#         'wiki/*/wiki_*,books/*.txt' biomedical/task biomedical/run
#
# ENCODER is a folder of Hugging Face with a BERT. DOMAIN and GENERAL are patterns of text files,
# with commas between several. TASK has train.conll, dev.conll and test.conll. Each training takes
# STEPS steps of 64 sequences of 64 tokens. Given again, each command goes on or has nothing to do.
set -eu
if [ $# -ne 5 ]; then
    echo "usage: $0 ENCODER DOMAIN GENERAL TASK OUTPUT" >&2
    exit 2
fi
encoder=$1 domain=$2 general=$3 task=$4 output=$5
steps=${STEPS:-300}
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
    beambert data "$@" --vocab_file="$vocabulary" --output="$records/$name" --max_seq_length=64 \
        --pairs=none --masks=whole_word --dupe_factor=1 --eval_fraction=0.01 \
        --decontaminate "$task/dev.conll" "$task/test.conll"
}
make_records general "$encoder/vocab.txt" --source=general="$general"
make_records mixed-old-words "$encoder/vocab.txt" \
    --source=domain="$domain" --source=general="$general" --weights=domain=0.75,general=0.25
make_records mixed "$output/vocab.txt" \
    --source=domain="$domain" --source=general="$general" --weights=domain=0.75,general=0.25
make_records domain "$output/vocab.txt" --source=domain="$domain"
beambert verify "$records/mixed" --output="$output/verification"

# All trainings are evaluated on the same held-out documents, cut by their own vocabulary.
train() { # NAME INIT RECORDS HELD_OUT
    beambert pretrain --init="$2" --data="$records/$3" --model_dir="$encoders/$1" \
        --eval_data=domain="$records/$4/eval/domain" \
        --eval_data=general="$records/$4/eval/general" \
        --objective=mlm --optimizer=adamw_corrected --learning_rate=5e-4 --num_train_steps="$steps" \
        --train_batch_size=64 --eval_steps=100
}
# A sentence encoder has no masked-LM head. General text teaches it one, so that all begin alike.
train before "$encoder" general mixed-old-words
train old-words "$encoders/before" mixed-old-words mixed-old-words
train new-words "$encoders/before" mixed mixed
train domain-alone "$encoders/before" domain mixed
beambert compare --output="$output/comparison" \
    "$encoders/old-words" "$encoders/new-words" "$encoders/domain-alone"

# How likely are sentences that no training saw? By character, which compares the vocabularies.
awk 'NF { printf "%s ", $1; next } { print "" }' "$task/test.conll" | grep . | head -n 200 \
    >"$output/sentences.txt"
for name in before old-words new-words domain-alone; do
    beambert score --model="$encoders/$name" --whole_words --input="$output/sentences.txt" \
        --output="$output/scores-$name.jsonl"
done

# The task, from each of them.
for name in before old-words new-words domain-alone; do
    beambert finetune --task=tagging --data_dir="$task" --init="$encoders/$name" \
        --model_dir="$output/task/$name" --max_seq_length=64 --num_train_epochs=2
    beambert evaluate --task=tagging --data_dir="$task" --split=test --slices=none \
        --model="$output/task/$name" --output="$output/evaluation/$name"
done

if [ ! -d "$output/domain-encoder" ]; then
    beambert export --model="$encoders/new-words" --to=huggingface --license=apache-2.0 \
        --output="$output/domain-encoder"
fi
