"""promptfoo configurations: what is taken, what is listed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from evalflow.addons.interop.importers.files import ImportSource, secrets_in
from evalflow.addons.interop.importers.promptfoo.read import read_promptfoo
from evalflow.errors import UserError
from evalflow.metrics.case_checks import RuleParams
from evalflow.values.jsonvalues import as_map
from tests.addons.interop.importers.promptfoo.conftest import BASE, Read, left, rows


def test_prompts_and_providers_are_targets(read: Read) -> None:
    found = read(
        """
prompts:
  - 'Answer {{question}} in {{language}}.'
  - file://chat.json
providers:
  - openai:chat:gpt-4.1
  - {id: anthropic:messages:claude-x, label: claude, config: {temperature: 0.2, max_tokens: 50}}
  - {id: ollama:chat:llama3, prompts: [chat]}
tests: [{vars: {question: When?, language: en}}]
""",
        chat_json=json.dumps(
            [
                {"role": "system", "content": "Be short in {{language}}."},
                {"role": "user", "content": "{{ question }}"},
            ]
        ),
    )
    assert found.ledger.counts()["providers"] == (3, 3, 0)
    assert found.ledger.counts()["prompts"] == (2, 2, 0)
    assert len(found.targets) == len(found.experiments) == 5
    assert found.targets["pool_openai_chat_gpt_4_1_1"] == {
        "defaults": ["openai", "_self_"],
        "name": "openai:chat:gpt-4.1 1",
        "model": "gpt-4.1",
        "api_key_env": "OPENAI_API_KEY",
        "temperature": None,
        "prompt": "pool/prompt_1.jinja",
    }
    claude = found.targets["pool_claude_2"]
    assert (claude["base_url"], claude["max_tokens"]) == ("https://api.anthropic.com/v1", 50)
    assert found.prompts[str(claude["system_prompt"])] == "Be short in {{vars.language}}."
    assert found.prompts["pool/prompt_1.jinja"] == "Answer {{vars.question}} in {{vars.language}}."
    assert found.experiments["pool_claude_2"].generate is True


def test_keys_are_never_written(read: Read, tmp_path: Path) -> None:
    found = read(
        """
prompts: ['{{q}}']
providers:
  - {id: openai:gpt-4.1, label: a, config: {apiKey: sk-secret-1}}
  - {id: openai:gpt-4.1, label: b, config: {apiKeyEnvar: MY_KEY}}
  - {id: openai:gpt-4.1, label: c, config: {apiKey: '{{env.OTHER_KEY}}'}}
  - id: https://bot.example/chat
    label: d
    config:
      headers: {Authorization: Bearer sk-secret-2, X-Trace: sk-secret-3, Accept: text/plain}
      body: {prompt: '{{prompt}}', api_key: sk-secret-4}
      transformResponse: json.choices[0].text
  - id: https://bot.example/chat?key=sk-secret-5
env: {OPENAI_API_KEY: sk-secret-6}
tests: [{vars: {q: When?}}]
"""
    )
    written = "".join([*found.files().values(), *found.prompts.values(), *found.notes])
    written += "".join(path.read_text() for path in found.data.values())
    assert "sk-secret" not in written
    assert found.targets["pool_a"]["api_key_env"] == "POOL_A_API_KEY"
    assert any("POOL_A_API_KEY" in note and "promptfooconfig.yaml:4" in note for note in found.notes)
    assert [found.targets[f"pool_{name}"]["api_key_env"] for name in "bc"] == ["MY_KEY", "OTHER_KEY"]
    bot = found.targets["pool_d"]
    assert bot["answer"] == "$.choices[0].text"
    assert as_map(bot["body"])["prompt"] == "{{vars.q}}"
    assert {str(secret) for secret in secrets_in(bot["headers"])} == {
        "Bearer ${oc.env:POOL_D_AUTHORIZATION}",
        "${oc.env:POOL_D_X_TRACE}",
    }
    assert "its address has a key in it" in " ".join(left(found))


def test_tests_are_cases(read: Read) -> None:
    found = read(
        BASE
        + """
defaultTest: {vars: {language: en}, assert: [{type: contains, value: '{{language}}'}], metadata: {team: a}}
tests:
  - {description: two, vars: {question: ['When?', 'Where?'], language: [de, fr]}}
  - {vars: {question: Who?, tags: [1, 2]}, providerOutput: Me, options: {disableDefaultAsserts: true}}
  - file://more.csv
  - file://tests/*.yaml
scenarios:
  - config: [{vars: {language: it}}, {vars: {language: es}}]
    tests: [{vars: {question: Why?}}]
""",
        more_csv='question,__expected,__metric,__description\nHow?,"contains-any: a, b",quality,c\n',
        tests__one_yaml="- vars: {question: file://q.txt}\n",
        tests__q_txt="From a file",
    )
    assert found.ledger.counts()["tests"] == (6, 6, 0)
    assert found.ledger.counts()["cases"] == (9, 9, 0)
    cases = rows(found)
    assert [case["vars"]["language"] for case in cases] == ["de", "de", "fr", "fr", "en", "en", "en", "it", "es"]
    assert cases[0]["checks"][0]["params"]["value"] == "de"
    assert (cases[4]["answer"], cases[4].get("checks"), cases[4]["vars"]["tags"]) == ("Me", None, [1, 2])
    quality = {"op": "contains_any", "values": ["a", "b"], "normalize": None}
    assert cases[5]["checks"][1] == {"identifier": "rule", "name": "quality", "params": quality}
    assert cases[6]["question"] == "From a file"
    assert found.experiments["pool"].generate == "missing"


def test_what_has_no_like_is_listed_with_its_line(read: Read) -> None:
    found = read(
        BASE
        + """
nunjucksFilters: {f: f.js}
tests:
  - vars: {question: When?}
    assert:
      - {type: javascript, value: 'require("fs").existsSync(output)'}
      - {type: python, value: file://check.py}
      - {type: contains, value: a, transform: output.a}
      - {type: levenshtein, value: a}
    options: {transform: output.b}
  - file://make.py
  - vars: {question: '{{ env.SECRET }}'}
"""
    )
    places = {entry.what: entry.where.rpartition("/")[2] for entry in found.ledger.left_out}
    assert places["assert javascript"] == "promptfooconfig.yaml:8"
    assert places["assert python"] == "promptfooconfig.yaml:9"
    assert places["nunjucksFilters"] == "promptfooconfig.yaml:4"
    assert "tests file://make.py" in places
    assert found.ledger.counts()["asserts"] == (4, 0, 4)
    assert found.ledger.counts()["cases"] == (2, 1, 1)
    assert all(entry.hint for entry in found.ledger.left_out if entry.part == "asserts")


def test_formats_of_answers_are_rules(read: Read) -> None:
    asserts = "[{type: is-html}, {type: not-is-html}, {type: is-xml, value: 'a.b'}, {type: contains-json}]"
    (case,) = rows(read(f"{BASE}\ntests: [{{vars: {{question: When?}}, assert: {asserts}}}]\n"))
    assert [check["params"] for check in case["checks"]] == [
        {"op": "html"},
        {"op": "not", "rule": {"op": "html"}},
        {"op": "xml", "elements": ["a.b"]},
        {"op": "json_schema", "schema": {}, "anywhere": True},
    ]


def test_weights_and_thresholds_are_groups(read: Read) -> None:
    found = read(
        BASE
        + """
tests:
  - vars: {question: When?}
    threshold: 0.5
    assert: [{type: contains, value: a, weight: 2}, {type: is-json}]
  - vars: {question: Who?}
    assert:
      - type: assert-set
        threshold: 0.5
        metric: either
        assert: [{type: contains, value: a}, {type: regex, value: b}]
  - vars: {question: Why?}
    threshold: 0.5
    assert: [{type: contains, value: a}, {type: python, value: 'True'}]
"""
    )
    first, second, third = rows(found)
    *checks, group = first["checks"]
    assert [check["name"] for check in checks] == ["contains", "is-json"]
    assert (group["identifier"], group["name"]) == ("group", "test_score")
    assert group["params"] == {"checks": checks, "threshold": 0.5}
    assert [check.get("weight") for check in checks] == [2.0, None]
    assert (second["checks"][0]["name"], len(second["checks"][0]["params"]["checks"])) == ("either", 2)
    assert [check["name"] for check in third["checks"]] == ["contains"]
    assert found.ledger.counts()["groups"] == (3, 2, 1)


def test_a_broken_set_leaves_its_checks(read: Read) -> None:
    found = read(
        BASE
        + """
tests:
  - vars: {question: When?}
    assert: [{type: assert-set, assert: [{type: contains, value: a}, {type: python, value: 'True'}]}]
"""
    )
    assert [check["name"] for check in rows(found)[0]["checks"]] == ["contains"]
    assert found.ledger.counts()["asserts"] == (2, 1, 1)
    assert found.ledger.counts()["groups"] == (1, 0, 1)


def test_a_name_never_stands_for_a_judge_and_a_rule(read: Read) -> None:
    found = read(
        BASE
        + """
tests:
  - {vars: {question: When?}, assert: [{type: contains, value: a, metric: tone}, {type: contains, value: b}]}
  - {vars: {question: Who?}, assert: [{type: llm-rubric, value: Is polite., metric: tone}, {type: contains, value: c}]}
"""
    )
    assert [[check["name"] for check in case["checks"]] for case in rows(found)] == [
        ["tone", "contains"],
        ["tone_judged", "contains"],
    ]


def test_echo_has_answers(read: Read) -> None:
    found = read('prompts: ["Say {{x}}.\\n", "Repeat {{x}}"]\nproviders: [echo]\ntests: [{vars: {x: [a, b]}}]\n')
    assert [case["answer"] for case in rows(found, "pool_echo_1")] == ["Say a.\n", "Say b.\n"]
    assert [case["answer"] for case in rows(found, "pool_echo_2")] == ["Repeat a", "Repeat b"]
    assert {option["name"] for option in found.datasets.values()} == {"pool"}
    assert found.experiments["pool_echo_1"].generate is False


def test_references_are_written_out(read: Read) -> None:
    found = read(
        BASE
        + """
assertionTemplates: {short: {type: javascript, value: output.length < 100}}
tests: [{vars: {question: When?}, assert: [{$ref: '#/assertionTemplates/short'}]}]
"""
    )
    assert rows(found)[0]["checks"][0]["params"] == {"op": "javascript", "script": "output.length < 100"}


def test_a_script_file_is_written_out_and_others_are_listed(read: Read) -> None:
    found = read(
        BASE
        + """
tests:
  - vars: {question: When?}
    assert:
      - {type: javascript, value: 'file://short.js'}
      - {type: javascript, value: 'file://more.cjs:exact'}
      - {type: javascript, value: 'file://module.mjs'}
      - {type: javascript, value: 'file://import.js'}
      - {type: not-javascript, value: 'file://short.js', threshold: 0.5}
""",
        short_js="module.exports = output => output.length / 10;\n",
        more_cjs="exports.exact = output => output === 'x';\n",
        import_js="import fs from 'fs';\nexport default output => true;\n",
    )
    params = [check["params"] for check in rows(found)[0]["checks"]]
    assert [one["script"].splitlines()[-1] for one in params] == [
        "return module.exports(output, context);",
        "return module.exports.exact(output, context);",
        "return module.exports(output, context);",
    ]
    assert (params[2]["least"], params[2]["inverse"]) == (0.5, True)
    assert [entry.reason.partition(":")[0] for entry in found.ledger.left_out] == [
        "it runs the program module.mjs",
        "it needs import, which rules do not have",
    ]


def test_the_judge_of_the_default_test_is_the_judge(read: Read) -> None:
    found = read(
        BASE
        + """
defaultTest: {options: {provider: {id: openai:gpt-4.1-mini, config: {apiKey: sk-secret}}}}
tests: [{vars: {question: When?}, assert: [{type: llm-rubric, value: 'Names {{question}}'}]}]
"""
    )
    assert found.judges == {
        "pool_judge": {
            "defaults": ["openai", "_self_"],
            "model": "gpt-4.1-mini",
            "api_key_env": "JUDGE_API_KEY",
            "temperature": None,
        }
    }
    assert found.files()["judge/pool_judge.yaml"].startswith("defaults:")
    assert "judge" not in found.experiments["pool"].more
    assert any(note.startswith("judge: the key in") for note in found.notes)
    assert "sk-secret" not in "".join([*found.files().values(), *found.notes])
    assert found.unjudged == {"pool"}
    assert rows(found)[0]["checks"][0] == {
        "identifier": "conformity",
        "name": "llm-rubric",
        "params": {"rules": ["Names When?"]},
    }
    assert found.experiments["pool"].option()["defaults"] == [
        {"override /dataset": "pool"},
        {"override /metric": ["checks"]},
        {"override /target": "pool"},
        {"override /judge": "pool_judge"},
    ]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", "the file is empty"),
        ("prompts: [a", "broken YAML"),
        ("- a\n- b", "it is not a configuration of promptfoo"),
        ("name: x", "it is not a configuration of promptfoo"),
        ("prompts: [a]\nprompts: [b]", "the key 'prompts' is given twice"),
        ("prompts: [file://nowhere.txt]\nproviders: [echo]", "which does not exist"),
        ("prompts: [file://../../]\nproviders: [echo]", "is outside of"),
        ("prompts: [a]\nproviders: [echo]\ntests: file://no/*.yaml", "matches no file"),
        ("prompts: [a]\ntests: [{$ref: '#/nowhere'}]", "is broken"),
        ("prompts: [a]\nx: {$ref: '#/x'}", "is circular"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nprompts: &p [*p]", "too many values"),
        (f"prompts: [a]\ntests: [{{vars: {{{', '.join(f'v{i}: [a, b]' for i in range(24))}}}}}]", "make 16,777,216"),
    ],
)
def test_bad_files_are_refused_in_words(read: Read, config: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(config)


def test_a_program_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "promptfooconfig.js"
    path.write_text("throw 1")
    with pytest.raises(UserError, match="it is a program"):
        read_promptfoo(ImportSource(path, "x", tmp_path))
    with pytest.raises(UserError, match="the folder has no configuration"):
        read_promptfoo(ImportSource(tmp_path, "x", tmp_path))


def test_missing_files_are_listed_where_the_rest_is_of_use(read: Read) -> None:
    found = read("""
prompts: [file://gone.txt, 'Say {{q}}']
providers: [echo]
tests:
  - file://gone.csv
  - vars: {q: file://gone.md}
  - vars: {q: hi}
    assert: [{type: equals, value: file://gone.txt}, {type: contains, value: hi, description: greets}]
""")
    assert found.ledger.counts()["prompts"] == (2, 1, 1)
    assert found.ledger.counts()["tests"] == (3, 1, 2)
    assert found.ledger.counts()["asserts"] == (2, 1, 1)
    assert all("put it there" in left.hint for left in found.ledger.left_out)


def test_without_a_prompt_the_cases_are_of_use(read: Read) -> None:
    found = read("prompts: [file://p.js]\nproviders: [echo]\ntests: [{vars: {question: Q}}]")
    assert found.experiments["pool"].generate is True
    assert found.prompts == {}


def test_every_key_without_a_like_is_listed(read: Read) -> None:
    found = read("""
prompts: ['{{q}}']
providers: [echo]
targets: [echo]
x-shared: &shared {type: contains, value: a}
assert: [{type: contains, value: b}]
defaultTest: {options: {timeout: 9}}
tests: [{vars: {q: a}, assert: [*shared], color: red, options: {storeOutputAs: x}}]
""")
    listed = {left.what for left in found.ledger.left_out}
    assert listed == {
        "targets",
        "x-shared",
        "assert",
        "defaultTest.options.timeout",
        "color of a test",
        "options.storeOutputAs of a test",
    }


def test_the_judge_that_all_assertions_name_is_the_run_s(read: Read) -> None:
    config = "prompts: [a]\nproviders: [echo]\ntests: [{vars: {q: a}, assert: [%s]}]"
    one = "{type: llm-rubric, value: v, provider: {id: 'groq:m', config: {temperature: 0}}}"
    judge = read(config % f"{one}, {one}").judges["pool_judge"]
    assert (judge["model"], judge["base_url"]) == ("m", "https://api.groq.com/openai/v1")


def test_of_several_judges_none_is_chosen(read: Read) -> None:
    one, two = ({"type": "llm-rubric", "value": "v", "provider": name} for name in ("groq:m", "openai:n"))
    tests = [{"vars": {"q": "a"}, "assert": [one, two]}]
    found = read(json.dumps({"prompts": ["a"], "providers": ["echo"], "tests": tests}))
    assert "judge" not in found.experiments["pool"].more
    assert any("groq:m, openai:n: a run has one judge" in note for note in found.notes)


def test_services_keep_their_address_and_the_first_part_of_their_reply(read: Read) -> None:
    found = read("""
prompts: ['{{q}}']
providers:
  - id: https
    config:
      url: '{{ env.BOT_URL }}/chat'
      body: {q: '{{prompt}}', keyword: '{{q}}', session_token: abc}
      transformResponse: json.choices?.[0]?.text || json.text
tests: [{vars: {q: a}}]
""")
    target = found.targets["pool"]
    assert str(target["url"]) == "${oc.env:BOT_URL}/chat"
    assert target["answer"] == "$.choices[0].text"
    assert as_map(target["body"])["keyword"] == "{{vars.q}}"
    assert str(as_map(target["body"])["session_token"]) == "${oc.env:POOL_HTTPS_SESSION_TOKEN}"
    assert any("json.text has no equivalent" in note for note in found.notes)


def test_settings_of_providers_are_parameters_of_requests_or_listed(read: Read) -> None:
    found = read(
        """
prompts: ['{{q}}', 'Briefly: {{q}}']
providers:
  - id: openai:chat:gpt-4.1
    delay: 100
    config:
      top_p: 0.9
      max_completion_tokens: 80
      response_format: {type: json_object}
      reasoning: {effort: low}
      tools: file://tools.json
      organization: desk
      passthrough: {safety_level: 3, n: 4, auth_token: sk-do-not-copy-1}
  - {id: google:gemini-x, config: {topP: 0.5, stopSequences: [END], maxOutputTokens: 50}}
defaultTest:
  options: {provider: {id: openai:gpt-4.1, config: {seed: 7, response_format: {type: json_object}}}}
tests: [{vars: {q: When?}, assert: [{type: llm-rubric, value: Names a time}]}]
"""
    )
    first, _, second, _ = found.targets.values()
    assert first["parameters"] == {
        "top_p": 0.9,
        "max_completion_tokens": 80,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
        "safety_level": 3,
    }
    assert (second["parameters"], second["max_tokens"]) == ({"top_p": 0.5, "stop": ["END"]}, 50)
    assert found.judges["pool_judge"]["parameters"] == {"seed": 7}
    listed = [entry.what for entry in found.ledger.left_out]
    assert listed == [
        f"{name} of provider openai:chat:gpt-4.1"
        for name in (
            "config.tools",
            "config.organization",
            "config.passthrough.n",
            "config.passthrough.auth_token",
            "delay",
        )
    ] + ["config.response_format of the judge"]
    assert all(entry.count == 1 for entry in found.ledger.left_out)


def test_keys_of_scenarios_are_listed_and_a_number_is_an_id(read: Read) -> None:
    found = read(
        "prompts: ['{{q}}']\nproviders: [openai:gpt-4.1]\n"
        "scenarios: [{description: both, config: [{vars: {q: a}, id: 0}], tests: [{vars: {r: b}}]}]"
    )
    assert left(found) == ["description of scenario 1: it has no equivalent"]
    assert rows(found)[0]["id"] == "0"


@pytest.mark.parametrize(
    ("value", "taken", "wrong"),
    [
        ("search", ["search"], ["look"]),
        ("[search, book]", ["book", "search"], ["search"]),
        ("{name: search}", ["search"], []),
    ],
)
def test_tools_that_must_be_used_are_a_rule_over_calls_in_any_form(
    read: Read, value: str, taken: list[str], wrong: list[str]
) -> None:
    found = read(
        f"{BASE}tests: [{{vars: {{question: a}}, assert: [{{type: 'trajectory:tool-used', value: {value}}}]}}]"
    )
    params = rows(found)[0]["checks"][0]["params"]
    rule = TypeAdapter[Any](RuleParams).validate_python(params).root
    for names, wanted in ((taken, True), (wrong, False)):
        plain: list[Any] = [{"name": name, "arguments": {}} for name in names]
        nested = [{"type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
        for calls in (plain, nested, [{"role": "assistant", "content": "", "tool_calls": nested}]):
            assert rule.apply("answer", {"answer": "", "actual": calls}).passed is wanted


def test_other_trajectories_are_listed_with_the_metric_that_has_them(read: Read) -> None:
    kinds = (
        "trajectory:tool-args-match",
        "trajectory:tool-sequence",
        "trajectory:step-count",
        "trajectory:goal-success",
    )
    declared = ", ".join(f"{{type: '{kind}', value: x}}" for kind in kinds)
    counted = "{type: 'trajectory:tool-used', value: {name: search, min: 2}}"
    found = read(f"{BASE}tests: [{{vars: {{question: a}}, assert: [{declared}, {counted}]}}]")
    assert all(entry.hint.startswith("metric=") for entry in found.ledger.left_out)
    assert found.ledger.counts()["asserts"] == (5, 0, 5)
