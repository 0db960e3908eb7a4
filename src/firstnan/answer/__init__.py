"""What an answer can say: the report and its parts, typed, frozen and versioned.

Knows every kind of cause, place, state and note. Knows neither how an answer is found nor how it is shown. Start at
:mod:`firstnan.answer.model`; :mod:`firstnan.answer.load` reads a report back, :mod:`firstnan.answer.schema` describes
its JSON.
"""
