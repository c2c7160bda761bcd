"""A study's tokenizer as Hugging Face files beside a saved model: the same ids for every text. Needs no transformers.

The study's vocabularies have no special tokens, and a document ends with a newline. Tools need an end-of-text token (as prefix,
padding, stop string), so the newline is named as such; it stays text, and `generate()` does not stop at it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, read_json, write_json, write_text


def save_hf_tokenizer(tokens_dir: StrPath, model_dir: StrPath) -> None:
    """Write the tokenizer of a tokens folder to `model_dir`, where AutoTokenizer.from_pretrained finds it."""
    folder = Path(tokens_dir)
    fields = read_json(folder / "tokenizer.json")
    if fields.get("kind") not in _BUILDERS:
        raise unknown_name(f"{folder / 'tokenizer.json'}: kind", str(fields.get("kind")), _BUILDERS)
    built = _BUILDERS[fields["kind"]](folder, fields)
    if built.get_vocab_size() != fields["vocab_size"]:
        raise UserError(f"{folder}: tokenizer.json says {fields['vocab_size']} ids, its model has {built.get_vocab_size()}. Fit it again.")
    end = next((token for token in ("\n", "<|endoftext|>", "</s>") if built.token_to_id(token) is not None), None)
    kind = "PreTrainedTokenizerFast" if _BUILDERS[fields["kind"]] is _pretrained else "OvertoneTokenizer"
    write_text(Path(model_dir) / "tokenizer.json", built.to_str(pretty=False))
    write_json(Path(model_dir) / "tokenizer_config.json",
               {"tokenizer_class": kind, "clean_up_tokenization_spaces": False, "eos_token": end, "pad_token": end})


def _bytes(folder: Path, fields: dict[str, Any]) -> Tokenizer:
    """Every character falls back to its UTF-8 bytes; id = byte."""
    vocabulary = {_byte_piece(byte): byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _byte_piece(byte: int) -> str:
    return "\n" if byte == 10 else f"<0x{byte:02X}>"


def _characters(folder: Path, fields: dict[str, Any]) -> Tokenizer:
    """Id 0 is unknown, id k the k-th character."""
    vocabulary = {character: number for number, character in enumerate(fields["characters"], start=1)}
    unknown = "<0xFF>"  # a byte that is no UTF-8, so it is shown as U+FFFD
    tokenizer = Tokenizer(models.WordLevel({unknown: 0} | vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _sentencepiece(folder: Path, fields: dict[str, Any]) -> Tokenizer:
    """SentencePiece BPE: a pair merges where the merged piece exists, the likeliest piece first.

    Its mark for a space, U+2581, becomes a space, so that a U+2581 of the text is spelled in bytes, as the study spells it.
    """
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    size = model.vocab_size()
    pieces = [piece if model.is_byte(number) or model.is_unknown(number) else piece.replace("\u2581", " ")
              for number, piece in enumerate(map(model.id_to_piece, range(size)))]
    plain = {pieces[number] for number in range(size) if not (model.is_byte(number) or model.is_unknown(number))}
    ranked = sorted((number for number in range(size) if pieces[number] in plain), key=lambda number: (-model.get_score(number), number))
    merges = [(pieces[number][:cut], pieces[number][cut:]) for number in ranked for cut in range(1, len(pieces[number]))
              if pieces[number][:cut] in plain and pieces[number][cut:] in plain]
    vocabulary = {"\n" if piece == "<0x0A>" else piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token=pieces[model.unk_id()], fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")  # no piece holds a newline; lines keep merging fast
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _pretrained(folder: Path, fields: dict[str, Any]) -> Tokenizer:
    """The hub's own file."""
    return Tokenizer.from_file(str(folder / "tokenizer.hub.json"))


_BUILDERS = {"bytes": _bytes, "characters": _characters, "sentencepiece": _sentencepiece, "gpt2": _pretrained, "pretrained": _pretrained}
