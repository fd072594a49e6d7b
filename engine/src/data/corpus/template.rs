//! Templates of conversations: messages to text, and which parts of it an assistant said.
//!
//! Owns [`Template`]. Templates are Jinja, with the extensions of the `transformers` library: blocks on lines of their own
//! leave no trace, `raise_exception`, `strftime_now`, methods of Python's strings, `break` and `continue`. Always holds: the
//! same messages give the same text on every day, so `strftime_now` is given only to templates that need it, and gives
//! [`DATE`]. Refuses templates that are not Jinja or fail, and templates under which an assistant's words cannot be told
//! from the rest.

use std::{collections::BTreeMap, ops::Range, path::Path};

use jiff::civil::{DateTime, date};
use minijinja::{
    Environment, Error as Failure, ErrorKind, Value, context,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde},
};
use serde_json::ser::PrettyFormatter;

use crate::error::{Error, Result};

/// The one template of an environment.
const NAME: &str = "chat_template";
/// The day on which every conversation takes place.
const DATE: DateTime = date(2024, 7, 26).at(0, 0, 0, 0);
/// The most instructions of one rendering: a template that needs more does not end.
const MOST: u64 = 50_000_000;

/// A mark in place of the tags around an assistant's words, if a template has such tags.
const BEGIN: char = '\u{f8f0}';
const END: char = '\u{f8f1}';
/// An answer that no template writes by itself.
const ANSWER: char = '\u{f8f2}';

/// Renders conversations.
#[derive(Debug)]
pub(super) struct Template {
    environment: Environment<'static>,
    /// The special tokens, by their names.
    tokens: BTreeMap<String, String>,
    /// Whether the template itself marks an assistant's words.
    is_marked: bool,
}

/// A conversation as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// The words of assistants, as ranges of bytes in the text.
    pub(super) said: Vec<Range<usize>>,
}

impl Template {
    /// Compiles a template; `path` is for messages.
    ///
    /// # Errors
    /// Fails for text that is not a template, with its line.
    pub(super) fn new(text: &str, path: &Path, tokens: BTreeMap<String, String>) -> Result<Self> {
        let failed = |error: Failure| {
            let place = error.line().map_or(NAME.to_owned(), |line| format!("{NAME}, line {line}"));
            let message = format!(
                "the template cannot be compiled: {}; take the one that was published with the model, or give each sample \
                 as \"text\" or as \"prompt\" and \"completion\"",
                said(&error)
            );
            Error::file_at(path, place, message)
        };
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(failed)?);
        environment.set_fuel(Some(MOST));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        if text.contains("strftime_now") && !text.contains("strftime_now is defined") {
            environment.add_function("strftime_now", strftime_now);
        }
        let (text, is_marked) = marked(text);
        environment.add_template_owned(NAME, text).map_err(failed)?;
        Ok(Self { environment, tokens, is_marked })
    }

    /// Messages as text, with the parts of it that assistants say.
    ///
    /// # Errors
    /// Fails if the template does, and if it gives another beginning to a longer conversation. The text is the fault.
    pub(super) fn render(&self, messages: &[Value]) -> Result<Rendered, String> {
        let whole = self.text(messages, false)?;
        if self.is_marked {
            return Ok(taken_apart(&whole));
        }
        let mut said = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            if !message.get_attr("role").is_ok_and(|role| role.as_str() == Some("assistant")) {
                continue;
            }
            let before = self.text(&messages[..at], true)?;
            let with = if at + 1 == messages.len() { whole.clone() } else { self.text(&messages[..=at], false)? };
            if !with.starts_with(&before) || !whole.starts_with(&with) {
                return Err(format!(
                    "the template writes what precedes message {} differently once more messages follow, so what the assistant \
                     says cannot be told from the rest; write data.completion_only = false, which scores all of it, or give \
                     each answer a line of its own",
                    at + 1
                ));
            }
            said.push(before.len()..with.len());
        }
        Ok(Rendered { text: whole, said })
    }

    /// Messages as text alone.
    ///
    /// # Errors
    /// Fails if the template does; says what is wrong.
    pub(super) fn plain(&self, messages: &[Value]) -> Result<String, String> {
        let whole = self.text(messages, false)?;
        Ok(if self.is_marked { taken_apart(&whole).text } else { whole })
    }

    /// A conversation that a user begins, up to where an assistant is to answer.
    ///
    /// # Errors
    /// Fails if the template does; says what is wrong.
    pub(super) fn question(&self, said: &str) -> Result<String, String> {
        let whole = self.text(&[message("user", said)], true)?;
        Ok(if self.is_marked { taken_apart(&whole).text } else { whole })
    }

    /// The text after an answer that ends a conversation; `None` if that cannot be told.
    pub(super) fn after_answer(&self) -> Option<String> {
        let whole = self.plain(&[message("user", "a"), message("assistant", &ANSWER.to_string())]).ok()?;
        whole.split_once(ANSWER).map(|(_, rest)| rest.to_owned())
    }

    fn text(&self, messages: &[Value], add_generation_prompt: bool) -> Result<String, String> {
        let failed = |error: Failure| format!("the template of conversations fails: {}", self::said(&error));
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let own = context! { messages => messages.to_vec(), add_generation_prompt };
        template.render(context! { ..own, ..Value::from(Serde(&self.tokens)) }).map_err(failed)
    }
}

fn message(role: &str, content: &str) -> Value {
    context! { role, content }
}

/// The message of a failure, without the name of the one template.
fn said(error: &Failure) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{what} (its line {line})"),
        None => what,
    }
}

fn raise_exception(message: String) -> Result<Value, Failure> {
    Err(Failure::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(format: &str) -> Result<String, Failure> {
    let written = jiff::fmt::strtime::format(format, DATE);
    written.map_err(|error| Failure::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Writes JSON as Python's `json.dumps` does: a space after each comma and colon, and nothing escaped for a web page.
fn to_json(value: Value, options: Kwargs) -> Result<Value, Failure> {
    let indent: Option<usize> = options.get("indent")?;
    let failed = |error: serde_json::Error| Failure::new(ErrorKind::InvalidOperation, error.to_string());
    let mut written = Vec::new();
    match indent {
        Some(count) => {
            let indent = " ".repeat(count.min(16));
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            let mut writer = serde_json::Serializer::with_formatter(&mut written, formatter);
            serde::Serialize::serialize(&value, &mut writer).map_err(failed)?;
        }
        None => {
            let mut writer = serde_json::Serializer::with_formatter(&mut written, Spaced);
            serde::Serialize::serialize(&value, &mut writer).map_err(failed)?;
        }
    }
    Ok(Value::from_safe_string(String::from_utf8_lossy(&written).into_owned()))
}

/// JSON on one line, with a space after each comma and colon.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

/// A template with marks in place of the tags `{% generation %}` and `{% endgeneration %}`, and whether it has them.
fn marked(text: &str) -> (String, bool) {
    let (mut out, mut rest, mut found) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(length) = tag.find("%}").map(|end| end + 2) else { break };
        let (tag, after) = tag.split_at(length);
        let inner = &tag[2..tag.len() - 2];
        let trim = |c: char| c == '-' || c == '+';
        let mark = match inner.trim_matches(trim).trim() {
            "generation" => Some(BEGIN),
            "endgeneration" => Some(END),
            _ => None,
        };
        match mark {
            Some(mark) => {
                found = true;
                let (open, close) = (inner.starts_with('-'), inner.ends_with('-'));
                let (open, close) = (if open { "{%-" } else { "{%" }, if close { "-%}" } else { "%}" });
                // The tag as it is laid out takes the same blanks away; the mark stands inside of it.
                out.push_str(&format!("{open} if true %}}{{{{ '{mark}' }}}}{{% endif {close}"));
            }
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    (out, found)
}

/// A text without its marks, and the parts between them.
fn taken_apart(whole: &str) -> Rendered {
    let (mut text, mut said, mut open) = (String::with_capacity(whole.len()), Vec::new(), None);
    for c in whole.chars() {
        match c {
            BEGIN => open = Some(text.len()),
            END => said.extend(open.take().map(|begin| begin..text.len())),
            c => text.push(c),
        }
    }
    Rendered { text, said }
}

#[cfg(test)]
mod tests {
    use super::{super::line::Line, *};

    const CHATML: &str = "{% for message in messages %}\n{{ '<|im_start|>' + message['role'] + '\\n' + \
                          message['content'].strip() + '<|im_end|>' + '\\n' }}\n  {%- endfor %}\n\
                          {% if add_generation_prompt %}\n{{ '<|im_start|>assistant\\n' }}\n  {%- endif %}";

    fn template(text: &str) -> Result<Template> {
        let tokens = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
        Template::new(text, Path::new("a/tokenizer_config.json"), tokens)
    }

    fn messages() -> Vec<Value> {
        let all = [("user", "Hi? "), ("assistant", "Ja."), ("user", "So"), ("assistant", "Nein <&>.")];
        all.into_iter().map(|(role, content)| message(role, content)).collect()
    }

    #[test]
    fn what_an_assistant_says_is_what_its_messages_add() {
        let rendered = template(CHATML).expect("a template").render(&messages()).expect("rendered");
        assert!(rendered.text.starts_with("<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\nJa."));
        let said: Vec<&str> = rendered.said.iter().map(|range| &rendered.text[range.clone()]).collect();
        assert_eq!(said, ["Ja.<|im_end|>\n", "Nein <&>.<|im_end|>\n"]);
    }

    #[test]
    fn a_template_that_marks_what_is_said_is_believed() {
        let text = "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}\n  {%- generation %}{{ m.content \
                    }};{% endgeneration -%}\n{% else %}{{ m.content }}>{% endif %}{% endfor %}";
        let rendered = template(text).expect("a template").render(&messages()).expect("rendered");
        assert_eq!(rendered.text, "<s>Hi? >Ja.;So>Nein <&>.;");
        let said: Vec<&str> = rendered.said.iter().map(|range| &rendered.text[range.clone()]).collect();
        assert_eq!(said, ["Ja.;", "Nein <&>.;"]);
        assert_eq!(template(text).expect("a template").plain(&messages()).expect("rendered"), rendered.text);
    }

    #[test]
    fn a_template_whose_beginning_changes_is_refused() {
        let text = "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}";
        let error = template(text).expect("a template").render(&messages()).expect_err("its beginning changes");
        assert!(error.contains("message 2") && error.contains("data.completion_only = false"), "{error}");
        assert_eq!(template(text).expect("a template").plain(&messages()).expect("text"), "4Hi? Ja.SoNein <&>.");
    }

    #[test]
    fn templates_have_what_transformers_gives_them() {
        let text = "{{ {'b': [1, 'ä<']}|tojson }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}\
                    {{ m.content.split('?')[0] }}{% endfor %}{{ strftime_now('%d %b %Y') }}";
        let text = template(text).expect("a template").plain(&messages()).expect("rendered");
        assert_eq!(text, "{\"b\": [1, \"ä<\"]}Hi26 Jul 2024");
        let guarded = "{% if strftime_now is defined %}today{% else %}then{% endif %}";
        assert_eq!(template(guarded).expect("a template").plain(&[]).expect("rendered"), "then");
        let raising = template("{{ raise_exception('Roles must alternate') }}").expect("a template");
        let error = raising.plain(&[]).expect_err("raised");
        assert!(error.contains("Roles must alternate"), "{error}");
    }

    #[test]
    fn calls_of_tools_are_written_in_the_order_of_their_line() {
        let text = "{% for m in messages %}{% for key, value in m.items() %}{{ key }};{% endfor %}{{ m.tool_calls | tojson }}\
                    {{ m.content }}{% endfor %}{{ {'b': 1, 'a': 2} | tojson }}";
        let line =
            br#"{"messages": [{"role": "assistant", "content": null, "tool_calls": {"unit": "c", "city": "Rome"}}]}"#;
        let Ok(Line::Messages(messages)) = Line::parse(line) else { panic!("no messages") };
        let written = template(text).expect("a template").plain(&messages).expect("rendered");
        assert_eq!(written, r#"role;tool_calls;{"unit": "c", "city": "Rome"}{"b": 1, "a": 2}"#);
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_line() {
        let error = template("a\n{% for %}").expect_err("no template").to_string();
        assert!(error.starts_with("a/tokenizer_config.json (chat_template, line 2): the template cannot"), "{error}");
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{{ c }}{% endfor %}\
                       {% endfor %}{% endfor %}";
        assert!(template(endless).expect("a template").plain(&[]).is_err());
    }
}
