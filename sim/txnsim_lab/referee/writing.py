"""A verdict in words: lines for a terminal, JSON, a comment in Markdown, a page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from txnsim.shell_text import ShellText, arguments, command_line, option
from txnsim_lab.exploration.way import marked_steps
from txnsim_lab.referee.verdict import AnomalyLine, Example, Source, Standing, Verdict

STANDING_WORDS: Final = {
    Standing.CURED: "B cures",
    Standing.BROUGHT: "B brings",
    Standing.CURED_IN_PART: "B cures in some runs, not in others",
    Standing.BROUGHT_IN_PART: "B brings to more runs",
    Standing.CHANGED: "both leave, not in the same runs",
    Standing.LEFT: "both leave",
}
_ORDER: Final = (
    Standing.BROUGHT,
    Standing.BROUGHT_IN_PART,
    Standing.CURED,
    Standing.CURED_IN_PART,
    Standing.CHANGED,
    Standing.LEFT,
)
_IN_PART: Final = (
    (Standing.CURED_IN_PART, "cures", "in some runs, not in others"),
    (Standing.BROUGHT_IN_PART, "brings", "to more runs"),
)
_FAILED: Final = "A plug-in failed, so this is no verdict on its design"
_PAGE_CSS: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color:#1b1b1b;background:#fff}table{border-collapse:collapse}td,th{text-align:left;"
    "padding:.2rem .8rem;border-bottom:1px solid #ccc}pre{background:#f3f3f3;padding:.6rem;"
    "overflow-x:auto}@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}"
    "pre{background:#262626}}"
)


def command_of(verdict: Verdict, example: Example, kind: str) -> ShellText:
    """The command that plays an example again."""
    pair = example.pair
    option_arguments = [*option("--on", example.side.value)]
    match pair.source:
        case Source.EXPLORE:
            option_arguments += option("--explore", pair.name)
            option_arguments += option("--way", example.sighting(kind).way)
        case Source.STORY:
            option_arguments += [*option("--stories", pair.name), *option("--run", pair.run)]
        case Source.SEED:
            option_arguments += option("--seed", pair.name)
    return command_line(
        "txnsim", "referee", *arguments(verdict.a, verdict.b, options=option_arguments)
    )


def sentence_of(verdict: Verdict) -> str:
    count_by_standing = {
        standing: sum(line.standing is standing for line in verdict.anomalies)
        for standing in Standing
    }
    if not verdict.differs:
        sentence = (
            f"No difference: both leave {_kinds_text(count_by_standing[Standing.LEFT])}."
            if verdict.anomalies
            else "Neither design leaves an anomaly."
        )
    else:
        standing_texts = [
            f"cures {_kinds_text(count_by_standing[Standing.CURED])}",
            f"brings {_kinds_text(count_by_standing[Standing.BROUGHT])}",
        ]
        for standing, verb, runs_phrase in _IN_PART:
            if count_by_standing[standing]:
                standing_texts.append(
                    f"{verb} {_kinds_text(count_by_standing[standing])} {runs_phrase}"
                )
        if count_by_standing[Standing.CHANGED]:
            standing_texts.append(
                f"leaves {_kinds_text(count_by_standing[Standing.CHANGED])} in other runs than A"
            )
        if verdict.other_ways:
            stories_phrase = "one story goes" if len(verdict.other_ways) == 1 else "stories go"
            standing_texts.append(f"{stories_phrase} another way")
        left_kinds = _kinds_text(count_by_standing[Standing.LEFT])
        sentence = f"B {', '.join(standing_texts)}; both leave {left_kinds} alike."
    if verdict.failures:
        sentence = f"{_FAILED}. {sentence}"
    return sentence if verdict.is_complete else f"{sentence} Not all was played."


def _kinds_text(count: int) -> str:
    return {0: "none", 1: "one kind of anomaly"}.get(count, f"{count} kinds of anomalies")


def _ordered_lines(verdict: Verdict) -> list[AnomalyLine]:
    return sorted(verdict.anomalies, key=lambda line: (_ORDER.index(line.standing), line.kind))


def _played_text(verdict: Verdict) -> str:
    counts_by_source = verdict.played
    states = " and ".join(f"{count} states on {side}" for side, count in verdict.states.items())
    return (
        f"{counts_by_source['explore']} explorations ({states}), {counts_by_source['story']} runs"
        " of stories,"
        f" {counts_by_source['seed']} seeds, each on both"
    )


def _real_texts(verdict: Verdict, line: AnomalyLine) -> Iterator[str]:
    """What real releases did where a design has the anomaly."""
    for answer in verdict.real_answers_on(line):
        what = f"Apache Kafka {answer.release}, story {answer.story_run[0]} {answer.played_run}"
        if answer.why_not:
            yield f"{what}: no verdict, {answer.why_not}"
        elif line.kind in answer.kinds:
            yield f"{what}: has it"
        else:
            others = f"; it has {', '.join(answer.kinds)}" if answer.kinds else ""
            yield f"{what}: has it not{others}"


def _number_text(count: float | None) -> str:
    return "–" if count is None else f"{count:g}"


# Lines


def lines_of(verdict: Verdict) -> Iterator[str]:
    """The verdict for a terminal."""
    yield f"A: {verdict.a}"
    yield f"B: {verdict.b}"
    yield f"Played: {_played_text(verdict)}."
    yield sentence_of(verdict)
    yield from (f"! {failure}" for failure in verdict.failures)
    for line in _ordered_lines(verdict):
        yield ""
        yield (
            f"{STANDING_WORDS[line.standing]}: {line.kind}"
            f" (A alone in {line.only_a}, B alone in {line.only_b}, both in {line.both})"
        )
        for example in line.examples:
            sighting = example.sighting(line.kind)
            yield f"  on {example.side}, {example.pair.label}: {sighting.because}"
            yield from (
                f"  {step}" for step in marked_steps(sighting.steps, sighting.deviating_steps)
            )
            yield f"  play it: {command_of(verdict, example, line.kind)}"
        yield from (f"  {text}" for text in _real_texts(verdict, line))
    if verdict.other_ways:
        yield ""
        yield "Stories that go another way, judged without their expectations:"
        yield from (f"  {other_way}" for other_way in verdict.other_ways)
    if verdict.refusals:
        yield ""
        yield "Commits that got an error, in all seeds:"
        for refusals in verdict.refusals:
            yield f"  {refusals.error}: A {refusals.a}, B {refusals.b}"
    yield ""
    yield "A transaction on two partitions takes, on a quiet network:"
    for cost in verdict.costs:
        yield f"  {cost.mode}, {cost.what}: A {_number_text(cost.a)}, B {_number_text(cost.b)}"
    for remark in verdict.remarks:
        yield f"! {remark}"


# JSON


def as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "a": verdict.a,
        "b": verdict.b,
        "differs": verdict.differs,
        "complete": verdict.is_complete,
        "sentence": sentence_of(verdict),
        "played": verdict.played,
        "states": verdict.states,
        "anomalies": [
            {
                "kind": line.kind,
                "standing": line.standing.value,
                "only_a": line.only_a,
                "only_b": line.only_b,
                "both": line.both,
                "examples": [
                    {
                        "side": example.side.value,
                        "source": example.pair.source.value,
                        "name": example.pair.name,
                        "run": example.pair.run,
                        "because": example.sighting(line.kind).because,
                        "way": example.sighting(line.kind).way,
                        "steps": list(example.sighting(line.kind).steps),
                        "command": command_of(verdict, example, line.kind),
                    }
                    for example in line.examples
                ],
                "real": [
                    {
                        "release": answer.release,
                        "story": answer.story_run[0],
                        "run": answer.played_run,
                        "has_it": None if answer.why_not else line.kind in answer.kinds,
                        "found": list(answer.kinds),
                        "why_not": answer.why_not,
                    }
                    for answer in verdict.real_answers_on(line)
                ],
            }
            for line in _ordered_lines(verdict)
        ],
        "refused_commits": [
            {"error": refusals.error, "a": refusals.a, "b": refusals.b}
            for refusals in verdict.refusals
        ],
        "costs": [
            {"what": cost.what, "mode": cost.mode, "a": cost.a, "b": cost.b}
            for cost in verdict.costs
        ],
        "failures": list(verdict.failures),
        "other_ways": list(verdict.other_ways),
        "remarks": list(verdict.remarks),
    }


# Markdown


def markdown_of(verdict: Verdict) -> str:
    """The verdict as a comment to paste."""
    return "\n".join(_markdown_lines(verdict)) + "\n"


def _markdown_lines(verdict: Verdict) -> Iterator[str]:
    a_markdown, b_markdown = _code_markdown(verdict.a), _code_markdown(verdict.b)
    yield f"**A** {a_markdown} against **B** {b_markdown}: {sentence_of(verdict)}"
    yield ""
    yield f"Played with txnsim: {_played_text(verdict)}."
    if verdict.failures:
        yield ""
        yield from (f"- {escape(failure)}" for failure in verdict.failures)
    if verdict.anomalies:
        yield ""
        yield "| | Anomaly | A alone | B alone | Both |"
        yield "| --- | --- | --- | --- | --- |"
        for line in _ordered_lines(verdict):
            yield (
                f"| {STANDING_WORDS[line.standing]} | {line.kind} | {line.only_a} | {line.only_b}"
                f" | {line.both} |"
            )
    for line in _ordered_lines(verdict):
        for example in line.examples:
            sighting = example.sighting(line.kind)
            yield ""
            yield "<details>"
            label = escape(f"{line.kind} on {example.side}, {example.pair.label}")
            yield f"<summary>{label}</summary>"
            yield ""
            yield escape(sighting.because)
            yield ""
            yield "```"
            yield from marked_steps(sighting.steps, sighting.deviating_steps)
            yield f"$ {command_of(verdict, example, line.kind)}"
            yield "```"
            yield ""
            yield "</details>"
    real_texts = [
        f"- {line.kind}: {escape(text)}"
        for line in _ordered_lines(verdict)
        for text in _real_texts(verdict, line)
    ]
    if real_texts:
        yield ""
        yield "Real brokers, asked by the same stories:"
        yield ""
        yield from real_texts
    yield ""
    yield "| A transaction on two partitions takes | A | B |"
    yield "| --- | --- | --- |"
    for cost in verdict.costs:
        yield f"| {cost.mode}, {cost.what} | {_number_text(cost.a)} | {_number_text(cost.b)} |"
    for refusals in verdict.refusals:
        yield f"| commits that got {refusals.error}, in all seeds | {refusals.a} | {refusals.b} |"
    if verdict.other_ways or verdict.remarks:
        yield ""
        yield from (f"- {escape(text)}" for text in (*verdict.other_ways, *verdict.remarks))


def _code_markdown(text: str) -> str:
    return f"`{text.replace('`', '')}`"


# HTML


def html_of(verdict: Verdict) -> str:
    """The verdict as one page."""
    title = escape(f"{verdict.a} against {verdict.b}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_PAGE_CSS}</style>{''.join(_html_parts(verdict))}</html>\n"
    )


def _html_parts(verdict: Verdict) -> Iterator[str]:
    yield f"<h1>A: <code>{escape(verdict.a)}</code><br>B: <code>{escape(verdict.b)}</code></h1>"
    yield f"<p><strong>{escape(sentence_of(verdict))}</strong><p>{escape(_played_text(verdict))}."
    yield _html_list(verdict.failures)
    if verdict.anomalies:
        yield "<table><tr><th><th>Anomaly<th>A alone<th>B alone<th>Both"
        for line in _ordered_lines(verdict):
            yield (
                f"<tr><td>{STANDING_WORDS[line.standing]}<td>{escape(line.kind)}<td>{line.only_a}"
                f"<td>{line.only_b}<td>{line.both}"
            )
        yield "</table>"
    for line in _ordered_lines(verdict):
        for example in line.examples:
            sighting = example.sighting(line.kind)
            yield (
                f"<h2>{escape(line.kind)} on {example.side}, {escape(example.pair.label)}</h2>"
                f"<p>{escape(sighting.because)}"
            )
            steps = "\n".join(marked_steps(sighting.steps, sighting.deviating_steps))
            yield f"<pre>{escape(steps)}</pre>" if steps else ""
            yield f"<pre>{escape(command_of(verdict, example, line.kind))}</pre>"
        yield _html_list([*_real_texts(verdict, line)])
    yield "<h2>What a transaction on two partitions takes</h2><table><tr><th><th>A<th>B"
    for cost in verdict.costs:
        yield (
            f"<tr><td>{escape(f'{cost.mode}, {cost.what}')}<td>{_number_text(cost.a)}"
            f"<td>{_number_text(cost.b)}"
        )
    for refusals in verdict.refusals:
        yield (
            f"<tr><td>commits that got {escape(refusals.error)}, in all seeds"
            f"<td>{refusals.a}<td>{refusals.b}"
        )
    yield "</table>"
    yield _html_list((*verdict.other_ways, *verdict.remarks))


def _html_list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}' for text in texts)}</ul>" if texts else ""
