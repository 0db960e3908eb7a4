"""One self-contained HTML page: what it is drawn from, in Python, and the scripts that draw it, in ``assets``.

Start at :mod:`.page`, then :mod:`.model`. The colours of the heat map stand in ``assets/page/theme.css``.
"""
