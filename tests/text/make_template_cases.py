#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/templates.json: chat templates in the style of known model families, small templates of everything that the
language has, and what jinja2 renders of them with Hugging Face's settings. Wants the package jinja2; tests read only what is
committed.

  tests/text/make_template_cases.py            writes the file
"""
import copy
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent
NOW = 1753440896  # 2025-07-25 10:54:56 UTC


class Generation(jinja2.ext.Extension):
    """{% generation %}: a block that is rendered as it is."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("rendered"), [], [], body).set_lineno(line)

    def rendered(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)
    made.globals.update(raise_exception=raise_exception, strftime_now=now.strftime)
    return made


# What callers wrote stands between these, so that a test finds it in the output.
def typed(text):
    return f"⟦{text}⟧"


TURNS = [{"role": "user", "content": typed(" What is <|im_start|> 2 + 2? ")}, {"role": "assistant", "content": typed("4.\n")},
         {"role": "user", "content": typed("<s>[INST] Größe? 日本 </s>")}]
SYSTEM = {"role": "system", "content": typed("Be kind.")}
THOUGHT = [{"role": "user", "content": typed("Why?")}, {"role": "assistant", "content": typed("<think>\nHm.\n</think>\n\nSo.")},
           {"role": "user", "content": typed("Really?")}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The \"weather\" of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Rom", "Köln"]}, "days": {"type": ["integer", "null"]}},
    "required": ["city"]}}}]
CALLS = [{"role": "user", "content": typed("Weather in Rom?")},
         {"role": "assistant", "content": "", "tool_calls": [{"id": "a1", "type": "function", "function": {
             "name": "weather", "arguments": {"city": "Rom", "days": None}}}]},
         {"role": "tool", "name": "weather", "content": typed("{\"sky\": \"blue\"}")}]
PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": typed(" What is this? ")}]}]

FAMILIES = {
    "SmolLM2": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}""",
    "ChatML": """{%- for message in messages -%}
    {{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content | trim ~ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
""",
    "Llama 3": """{{- bos_token }}
{%- set date = strftime_now("%d %b %Y") if strftime_now is defined else "26 Jul 2024" %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" + "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "Gemma 3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "Mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + "}[/TOOL_RESULTS]" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
""",
    "Phi 3": """{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}""",
    "Qwen 3": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nSignatures are within <tools></tools> tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in message.content %}
                {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
                {%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "DeepSeek R1": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['tool_calls'] is defined %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- endif %}{%- endfor %}{%- elif message['role'] == 'assistant' %}{%- set content = message['content'] -%}{%- if '</think>' in content -%}{%- set content = content.split('</think>')[-1] -%}{%- endif -%}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{{'<｜tool▁outputs▁begin｜>' + message['content'] + '<｜tool▁outputs▁end｜>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}""",
    "Zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "Command R": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command-R.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}""",
    "gpt-oss": """{%- macro type_text(spec) -%}
    {%- if spec.type is sequence and spec.type is not string -%}
        {{- spec.type | join(" | ") -}}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum | join('" | "') + '"' -}}
    {%- else -%}
        {{- spec.type or "any" -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro functions(tools) -%}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\\n" }}
        {{- "type " + tool.name + " = (_: {\\n" }}
        {%- for name, spec in tool.parameters.properties.items() %}
            {{- name }}{% if name not in (tool.parameters.required or []) %}{{- "?" }}{% endif %}
            {{- ": " }}{{- type_text(spec) }}
            {%- if not loop.last %}{{- ",\\n" }}{%- else %}{{- "\\n" }}{%- endif %}
        {%- endfor %}
        {{- "}) => any;\\n" }}
    {%- endfor %}
{%- endmacro -%}
{%- macro turn(role, channel=none) -%}
    {{- "<|start|>" + role -}}
    {%- if channel is not none %}{{- "<|channel|>" + channel }}{%- endif -%}
    {{- "<|message|>" ~ caller() ~ "<|end|>" -}}
{%- endmacro -%}
{%- call turn("system") -%}
    {{- "Current date: " + strftime_now("%Y-%m-%d") + "\\nReasoning: " + (reasoning_effort | default("medium")) -}}
{%- endcall -%}
{%- if tools -%}
    {%- call turn("developer") %}{{- functions(tools) }}{%- endcall -%}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == "assistant" and message.tool_calls -%}
        {%- set call = message.tool_calls[0].function -%}
        {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" + call.arguments|tojson + "<|call|>" -}}
    {%- elif message.role == "assistant" -%}
        {%- generation -%}{%- call turn("assistant", "final") %}{{- message.content }}{%- endcall -%}{%- endgeneration -%}
    {%- else -%}
        {%- call turn(message.role) %}{{- message.content }}{%- endcall -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
""",
    "Granite": """{%- if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}{% set system_message = "Knowledge Cutoff Date: April 2024.
Today's Date: " + strftime_now('%B %d, %Y') + ".
You are Granite." %}{% set loop_messages = messages %}{% endif %}{{ '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>
' }}
{%- if tools %}{{ '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>
' }}{%- endif %}
{%- for message in loop_messages %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>
' }}
    {%- if loop.last and add_generation_prompt %}
        {{- '<|start_of_role|>assistant' }}{% if controls %}{{- ' ' + controls | tojson()}}{% endif %}{{- '<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}""",
    "Llama 2": """{% if messages[0]['role'] == 'system' %}{% set system_message = '<<SYS>>\\n' + messages[0]['content'] | trim + '\\n<</SYS>>\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system_message = '' %}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 %}{% set content = system_message + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content | trim + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "Falcon": """{% for message in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}{{ message.role|capitalize }}: {{ message.content.strip().replace('\\r\\n', '\\n').replace('\\n\\n', '\\n') }}{% endfor %}{% if add_generation_prompt %}{{ '\\nAssistant:' }}{% endif %}""",
}

CONVERSATIONS = {
    "turns": {"messages": TURNS},
    "system": {"messages": [SYSTEM] + TURNS[:1]},
    "thought": {"messages": THOUGHT, "enable_thinking": False},
    "tools": {"messages": [SYSTEM] + CALLS, "tools": TOOLS},
    "parts": {"messages": PARTS},
    "no reply": {"messages": TURNS[:2], "add_generation_prompt": False},
    "wrong order": {"messages": TURNS[:1] + TURNS[2:]},
}
AROUND = {"add_generation_prompt": True, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}

VARIABLES = {"x": 3, "y": -2, "s": " Hello wOrld-foo \t", "t": "a,b,,c", "w": "", "l": [3, 1, 2, 1], "ls": ["b", "A", "c", "a"], "n": None,
             "f": 2.5, "d": {"b": 1, "a": [1, 2.5, None, True, "q'uo\"te"], "Z": {"k": "v"}},
             "m": [{"role": "user", "content": "Hi ä"}, {"role": "tool", "content": " ok\n\nso"}]}
# What the language has, a few things in each; the first of a line of its own ends with the line.
LANGUAGE = """
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 / 2 }} {{ 3.0 }} {{ 1e20 }} {{ 1e-7 }} {{ 10 / 3 }} {{ 1_000 }} {{ -2 ** 2 }} {{ 2 ** -1 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 123456789012345678 }} {{ 0.1 + 0.2 }} {{ 1e300 * 1e10 }} {{ true + 1 }} {{ +x }} {{ -x }}
{{ 1 < 2 < 3 }} {{ not 1 == 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ none is none }} {{ 'a' ~ 1 ~ none ~ true }} {{ [1] < [2] }} {{ (1, 2) == [1, 2] }} {{ 'a' < 'b' }}
{{ 'a' in 'abc' }} {{ 1 in l }} {{ 'z' not in d }} {{ 'b' in d }} {{ x in [3] and y or n }} {{ w or 'other' }} {{ not w }} {{ 1 in missing }}
{{ 'a' if false }}|{{ missing }}|{{ x is defined }}|{{ missing is defined }}|{{ 'p' if x > 2 else 'q' }}|{{ missing|default('D') }}|{{ w|default('E', true) }}|{{ n|default(1) }}
{{ m[0].content[:2] }}{{ l[::-1] }}{{ 'äöü'[1:] }}{{ l[-2:] }}{{ 'abc'[::-1] }}{{ l[10:] }}{{ 'abc'[-1] }}{{ (1, 2, 3)[1:] }}{{ d['b'] }}{{ d.Z.k }}{{ l.0 }}
{{ [] }}{{ {} }}{{ (1,) }}{{ (1, 2) }}{{ {'a': (1, 'b'), 2: none} }}{{ "it's" }}{{ ["it's", 'a"b', '\\n\\x00\\\\é\\u200b'] }}{{ 'a' 'b' }}{{ "\\u00e4\\x41\\101\\q" }}
{{ d|tojson }} {{ d|tojson(indent=2) }} {{ 'ä"\\n\\x01'|tojson }} {{ 'ä😀'|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ []|tojson(indent=2) }}
{{ s|trim }}|{{ s|upper }}|{{ s|lower }}|{{ s|title }}|{{ 'hELLO ß'|capitalize }}|{{ 'xxaxx'|trim('x') }}|{{ s|length }}|{{ 'äÄ'|upper }}|{{ s|replace('o', '0', 1) }}|{{ 'abc'|replace('', '-') }}
{{ l|sort }} {{ ls|sort }} {{ ls|sort(case_sensitive=true, reverse=true) }} {{ m|sort(attribute='content')|map(attribute='role')|join('-') }} {{ ls|unique|list }} {{ l|unique|join }}
{{ l|min }}{{ l|max }}{{ l|sum }}{{ l|first }}{{ l|last }}{{ l|reverse|list }}{{ 'abc'|reverse }}{{ 'abc'|list }}{{ d|list }}{{ l|count }}{{ [[1, 'x'], [2, 'y']]|map('first')|list }}
{{ m|selectattr('role', 'equalto', 'user')|map(attribute='content')|list }}{{ m|rejectattr('role', 'eq', 'user')|list|length }}{{ l|select('odd')|list }}{{ l|reject('gt', 1)|list }}{{ [0, 1, '']|select|list }}
{{ d|dictsort }}{{ d.items()|list }}{{ d.keys()|list }}{{ d.values()|list }}{{ d.get('b') }}{{ d.get('q', 'r') }}{{ d.get('q') }}{% for k, v in d|items %}{{ k }}{% endfor %}{{ dict(a=1, b=2) }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 42|round }} {{ 2.1|round(0, 'ceil') }} {{ '12'|int + 1 }} {{ '3.7'|int }} {{ 'x'|int(5) }} {{ '2.5'|float }} {{ -3|abs }} {{ x|string ~ 1 }} {{ 'ff'|int(0, 16) }}
{{ 'a\\nb\\n\\nc'|indent(2) }}|{{ 'a\\nb\\n'|indent(3, true) }}|{{ 'a\\n\\nb'|indent(1, false, true) }}|{{ 'a\\nb'|indent('> ') }}
{{ t.split(',') }}{{ t.split(',', 1) }}{{ ' a  b '.split() }}{{ t.rsplit(',', 1) }}{{ 'a\\nb\\r\\nc'.splitlines() }}{{ '-'.join(ls) }}{{ 'xax'.strip('x') }}{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abcb'.replace('b', 'x', 1) }}{{ 'abc'.find('c') }}{{ 'aba'.count('a') }}{{ "it's a b-c".title() }}{{ 'aB'.upper() }}{{ '12'.isdigit() }}{{ 'pre-x'.removeprefix('pre-') }}
{{ '%s is %d%%' % ('a', 3) }} {{ '%s-%s'|format('x', l) }} {{ 'a' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }}
{{ x is odd }}{{ x is divisibleby 3 }}{{ s is string }}{{ d is mapping }}{{ l is iterable }}{{ s is sequence }}{{ x is number }}{{ true is boolean }}{{ n is none }}{{ x is eq 3 }}{{ 'a' is in ls }}{{ f is float }}{{ x is integer }}{{ 'ab' is lower }}{{ false is false }}{{ x is not string }}{{ x is sameas 3 }}
{% set ns = namespace(a=1) %}{% for i in range(4) %}{% set ns.a = ns.a * 2 %}{% endfor %}{{ ns.a }}{% set a, b = 1, 2 %}{{ b }}{% set q %}in {{ x }}{% endset %}{{ q|upper }}{% set q | trim %} z {% endset %}{{ q }}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for i in [] %}x{% else %}none{% endfor %}{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}
{% for i in ls %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{{ loop.cycle('p', 'q') }};{% endfor %}{% for i in l %}{% continue %}{% else %}all left{% endfor %}
{% macro f(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}{{ f() }}{% macro g(a) %}<{{ caller(a) }}>{% endmacro %}{% call(v) g(5) %}in {{ v }}{% endcall %}{% macro h(n) %}{{ n }}{% if n > 0 %}{{ h(n - 1) }}{% endif %}{% endmacro %}{{ h(3) }}
{% set v = 1 %}{% for i in l %}{% set v = v + 1 %}{{ v }}{% endfor %}{{ v }}{% if true %}{% set v = 9 %}{% endif %}{{ v }}{% with v = 5, z = v %}{{ v }}{{ z }}{% endwith %}{{ v }}{% generation %}{% set v = 7 %}{{ v }}{% endgeneration %}{{ v }}
{{ strftime_now('%d %B %Y %H:%M:%S %j %a %A %b %y %I %p %-d %m') }}{% raw %}{{ x }}{% endraw %}{% filter upper %}abc{{ x }}{% endfilter %}{# no #}{{- ' kept ' -}} {{ range(1, 8, 3)|list }}{{ range(3, 0, -1)|list }}
""".strip("\n").split("\n")
LINES = [
    "    {% if x %}\n   yes\n    {% endif %}\n  {# comment #}\n  a {%- if x -%} b {%- endif %} c\n",
    "{%- for m in m %}\n  {{- loop.index ~ '/' ~ loop.length }} {{ m.role|upper }}\n{% else %}\nnone\n{% endfor %}\nx\n\n",
    "a\r\n{% if x +%}\n b {%+ endif %}\rc{{ x }}\n",
    "  {%+ if x %}\n\t{% raw %} {{ y }}\n {%- endraw +%}\n{% endif %}  {# a\nb -#}  \n z",
    "{{ {'a': {'b': 1}}['a']['b'] }}{ {{ '}}' }} %} {{\n x\n}} }",
    "{% set x = 5\n%}\n\n{{ x }}\n\n{%- set y = 1 -%}\n\n{{ y }}",
]


def as_json(variables):
    return json.dumps(variables, ensure_ascii=False)


def as_json(variables):
    return json.dumps(variables, ensure_ascii=False)


def rendered(template, variables):
    try:
        return {"text": environment().from_string(template).render(**copy.deepcopy(variables))}
    except (jinja2.exceptions.TemplateError, TypeError) as error:
        return {"error": str(error)}


def main():
    families = [{"family": family, "conversation": name, "variables": as_json({**AROUND, **given}), **rendered(template, {**AROUND, **given})}
                for family, template in FAMILIES.items() for name, given in CONVERSATIONS.items()]
    language = [{"template": template, **rendered(template, VARIABLES)} for template in LANGUAGE + LINES]
    faulty = [case for case in language if "error" in case]
    assert not faulty, faulty
    data = {"now": NOW, "templates": FAMILIES, "families": families, "variables": as_json(VARIABLES), "language": language}
    (HERE / "data/templates.json").write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n")
    print(len(families), "conversations,", sum("error" in case for case in families), "refused;", len(language), "small templates")


if __name__ == "__main__":
    main()
