#!/bin/sh
# Biomedical text and a task of named entities, from the corpora of Crichton et al. (2017):
#
#     git clone https://github.com/cambridgeltl/MTL-Bioinformatics-2016 corpora
#     examples/domain/text.sh corpora biomedical
#
# biomedical/text.txt gets each sentence of 30 corpora once, on a line of its own. The corpora don't
# say where an abstract ends, so ten sentences in a row stand for a document. biomedical/task gets
# the sentences of NCBI-disease with their tags; none of them is in the text.
set -eu
export LC_ALL=C
if [ $# -ne 2 ]; then
    echo "usage: $0 CLONE OUTPUT" >&2
    exit 2
fi
corpora=$1/data output=$2
if [ ! -d "$corpora/NCBI-disease-IOB" ]; then
    echo "$0: there is no $corpora/NCBI-disease-IOB; name a clone of the corpora" >&2
    exit 2
fi
mkdir -p "$output/task"
for names in train=train devel=dev test=test; do
    cp "$corpora/NCBI-disease-IOB/${names%=*}.tsv" "$output/task/${names#*=}.conll"
done
# The task comes first, so that its sentences are known when the others are read.
find "$corpora" -path '*-IOB/*.tsv' ! -path '*/NCBI-disease-IOB/*' | sort |
    xargs awk '
        function end_sentence() {
            if (sentence != "" && !(sentence in seen)) {
                seen[sentence] = 1
                if (!is_task) {
                    print sentence
                    if (++lines == 10) end_document()
                }
            }
            sentence = ""
        }
        function end_document() {
            if (lines) print ""
            lines = 0
        }
        FNR == 1 { end_sentence(); end_document(); is_task = FILENAME ~ /\.conll$/ }
        NF { sentence = sentence == "" ? $1 : sentence " " $1; next }
        { end_sentence() }
        END { end_sentence() }
    ' "$output"/task/*.conll >"$output/text.txt"
