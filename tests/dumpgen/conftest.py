"""Keep pytest out of this folder: the programs here need torch, transformers and mindstudio-probe, the tests do not."""

collect_ignore_glob = ["*.py"]
