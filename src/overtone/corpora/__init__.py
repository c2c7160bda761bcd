"""Text into token files: fetch, verify, extract, split by document, tokenize. Imports no torch.

archive -> documents.jsonl -> splits/*.jsonl -> tokenizer -> *.bin; every large file has a JSON beside it.
"""

from overtone.corpora.registry import Corpus, corpus
from overtone.corpora.tokenfile import TokenFile
from overtone.corpora.tokenizers import Tokenizer, load_tokenizer

__all__ = ["Corpus", "TokenFile", "Tokenizer", "corpus", "load_tokenizer"]
