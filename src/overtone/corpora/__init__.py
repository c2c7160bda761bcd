"""Text into token files: fetch, verify, extract, split by document, tokenize. Imports no torch.

archive -> documents.jsonl -> splits/*.jsonl -> tokenizer -> *.bin; every large file has a JSON beside it.
Every stage streams: memory is one document, whatever the corpus.
"""

from overtone.corpora.registry import Corpus, corpus
from overtone.corpora.tokenfile import TokenFile
from overtone.corpora.tokenizers import Tokenizer, load_tokenizer
from overtone.corpora.wheels import fetch_wheel_file

__all__ = ["Corpus", "TokenFile", "Tokenizer", "corpus", "fetch_wheel_file", "load_tokenizer"]
