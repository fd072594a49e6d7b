//! Published configurations, and files that are not configurations.

use super::*;
use crate::experiment::{AttentionKind, ModelKind, preset};

/// The fields that decide the sizes, as the published files have them.
const GPT2: &str = r#"{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "resid_pdrop": 0.1, "summary_activation": null, "vocab_size": 50257}"#;
const LLAMA3: &str = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "rope_theta": 500000.0,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256}"#;
const MISTRAL: &str = r#"{"architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}"#;
const QWEN2: &str = r#"{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
    "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
    "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936}"#;

const QWEN3: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
    "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_sliding_window": false,
    "vocab_size": 151936}"#;

fn open(text: &str) -> Experiment {
    parse(text, "models/small/config.json").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn published_configurations_are_opened_with_their_sizes() {
    let gpt2 = open(GPT2);
    let expected = Model {
        kind: ModelKind::Gpt2,
        width: 768,
        depth: 12,
        heads: 12,
        kv_heads: 12,
        hidden: 3072,
        dropout: 0.1,
        ..Model::default()
    };
    assert_eq!(gpt2.model, expected);
    assert_eq!((gpt2.data.kind, gpt2.data.length, gpt2.data.vocabulary), (DataKind::Tokens, 1024, 50_257));
    assert_eq!((gpt2.precision, gpt2.batch.micro, gpt2.title.as_str()), (Precision::F32, 1, "GPT-2 of small"));
    assert!(gpt2.description.ends_with("Left out of the file: attn_pdrop 0.1."), "{}", gpt2.description);

    let llama = open(LLAMA3);
    assert_eq!((llama.model.kv_heads, llama.model.tied, llama.model.rotary_base), (8, false, 500_000.0));
    assert_eq!((llama.data.length, llama.precision), (1024, Precision::Bf16Mixed));
    assert!(llama.description.contains("rope_scaling (a group)"), "{}", llama.description);
    let (_, notes) = opened(LLAMA3, Path::new("config.json")).expect("a configuration");
    assert_eq!(notes, ["allows 131072 tokens; data.length begins at 1024, which can be raised"]);
    let (_, notes) = opened(GPT2, Path::new("config.json")).expect("a configuration");
    assert_eq!(notes, [""; 0]);
    assert_eq!(open(MISTRAL).model.window, 4096);
    let qwen = open(QWEN2).model;
    assert_eq!((qwen.qkv_bias, qwen.tied, qwen.window, qwen.attention), (true, true, 0, AttentionKind::Efficient));
    let qwen = open(QWEN3).model;
    assert_eq!((qwen.qkv_bias, qwen.qk_norm, qwen.head_dim, qwen.head_width()), (false, true, 128, 128));
}

#[test]
fn an_import_can_be_saved_as_a_preset_and_read_back() {
    for text in [GPT2, LLAMA3, MISTRAL, QWEN2, QWEN3] {
        let imported = open(text);
        let read = preset::parse(&preset::to_text(&imported), "x.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(preset::to_text(&read), preset::to_text(&imported));
    }
}

#[test]
fn a_field_that_cannot_be_is_named_with_its_mend() {
    for (from, to, field, part) in [
        (
            "\"gpt2\"",
            "\"bert\"",
            "model_type",
            "\"bert\" is not a kind of model that can be opened; the kinds are gpt2, llama",
        ),
        ("\"n_embd\": 768", "\"n_embd\": 770", "n_head", "12 heads do not divide a width of 770; write one of 1, 2, 5"),
        ("\"n_embd\": 768", "\"n_embd\": \"768\"", "n_embd", "\"768\" is not a size; write a whole number"),
        ("\"n_embd\": 768", "\"n_embd\": -1", "n_embd", "-1 is not a size"),
        ("\"n_embd\": 768", "\"n_embd\": 1.5", "n_embd", "1.5 is not a size; write a whole number"),
        ("\"n_embd\": 768", "\"n_embd\": 18446744073709551615", "n_embd", "is too large; write 65536 or less"),
        ("\"n_embd\": 768", "\"n_embd\": 1e30", "n_embd", "is too large; write 65536 or less"),
        ("\"n_embd\": 768", "\"n_embd\": 768, \"n_embd\": 384", "n_embd", "is given twice; take one of the two out"),
        ("\"vocab_size\": 50257", "\"vocab_size\": 1000000000000000", "vocab_size", "write 1048576 or less"),
        ("\"n_positions\": 1024", "\"n_positions\": 0", "n_positions", "0 leaves no position for a token"),
        (
            "\"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024,",
            "\"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12,",
            "n_positions",
            "is missing",
        ),
        ("\"n_embd\": 768,", "", "n_embd", "is missing"),
        ("\"n_layer\": 12", "\"n_layer\": 0", "n_layer", "0 is not a depth; write 1 or more"),
        ("\"vocab_size\": 50257", "\"vocab_size\": 1", "vocab_size", "write"),
        ("\"gelu_new\"", "\"relu\"", "activation_function", "write \"gelu_new\""),
        ("\"resid_pdrop\": 0.1", "\"resid_pdrop\": 1.0", "resid_pdrop", "is not a share"),
        ("\"n_ctx\": 1024", "\"torch_dtype\": \"int8\"", "torch_dtype", "write \"float32\""),
        ("\"n_ctx\": 1024", "\"tie_word_embeddings\": 3", "tie_word_embeddings", "write true or false"),
    ] {
        let text = GPT2.replace(from, to);
        assert_ne!(text, GPT2, "{from}");
        let error = parse(&text, "config.json").expect_err(to).to_string();
        assert!(error.starts_with(&format!("config.json ({field}): ")) && error.contains(part), "{error}");
    }
    for (from, to, field) in [
        ("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7", "num_key_value_heads"),
        ("\"attention_bias\": false", "\"attention_bias\": true", "attention_bias"),
        ("\"attention_bias\": false", "\"head_dim\": 63", "head_dim"),
        ("\"max_position_embeddings\": 131072", "\"max_position_embeddings\": 0", "max_position_embeddings"),
        ("\"rope_theta\": 500000.0", "\"rope_theta\": 0", "rope_theta"),
    ] {
        let error = parse(&LLAMA3.replace(from, to), "config.json").expect_err(to).to_string();
        assert!(error.starts_with(&format!("config.json ({field}): ")), "{error}");
    }
}

#[test]
fn what_is_no_configuration_is_refused_in_words() {
    let said = |text: &str| parse(text, "config.json").expect_err(text).to_string();
    assert!(said("{\"model_type\": \"gpt2\",\n \"n_embd\" 3}").starts_with("config.json (line 2, column"), "a place");
    assert!(said("[1, 2]").contains("not an object of fields"));
    assert_eq!(said(" \n"), "config.json: is empty; a model's config.json is one object of fields");
    assert!(said("{\n").starts_with("config.json (line 2, column 1): is not JSON"), "{}", said("{\n"));
    assert!(said("{\"model_type\": 5}").contains("(model_type): 5 is not text in double quotes; the kinds are gpt2"));
    assert!(said("{}").contains("is missing, so the file does not say what kind of model it is; the kinds are gpt2"));
    assert!(said("{\"architectures\": [\"T5ForConditionalGeneration\"]}").contains("T5For"));
    assert!(is_config("\u{feff}\n {") && !is_config("version = 1") && !is_config(""));
    // Deeper than any reader follows.
    assert!(said(&"{\"a\":".repeat(100_000)).contains("is not JSON"));
}

/// `text` with a further field in front.
fn with(text: &str, field: &str) -> String {
    text.replacen('{', &format!("{{{field}, "), 1)
}

#[test]
fn a_window_is_what_the_file_says_of_its_layers() {
    let layers =
        |word: &str, count: usize| format!(r#""layer_types": [{}]"#, vec![format!("\"{word}\""); count].join(","));
    let qwen = QWEN2.replace("\"use_sliding_window\": false", "\"use_sliding_window\": true");
    let window = |text: &str, field: &str| open(&with(text, field)).model.window;
    // Up to the layer of `max_window_layers`, which is the last one, layers see everything, but the list goes before it.
    assert_eq!(open(&qwen).model.window, 0);
    assert_eq!(window(&qwen, &layers("sliding_attention", 24)), 32_768);
    let none = qwen.replace("\"max_window_layers\": 24", "\"max_window_layers\": 0");
    assert_eq!((open(&none).model.window, window(&none, &layers("full_attention", 24))), (32_768, 0));
    assert_eq!(window(QWEN2, &layers("sliding_attention", 24)), 0, "no layer uses it");
    assert_eq!(window(MISTRAL, &layers("full_attention", 32)), 0);
    assert_eq!(window(MISTRAL, &layers("sliding_attention", 32)), 4096);
    let mixed = layers("full_attention", 24).replacen("full_attention", "sliding_attention", 1);
    for (field, part) in [
        (mixed, "some layers have a window and others have none"),
        (layers("chunked_attention", 24), "chunked_attention"),
        (layers("full_attention", 3), "as there are layers: 24"),
        (r#""layer_types": 7"#.to_owned(), "as there are layers: 24"),
    ] {
        let said = parse(&with(&qwen, &field), "config.json").expect_err(&field).to_string();
        assert!(said.contains("(layer_types)") && said.contains(part), "{said}");
    }
}

#[test]
fn the_group_of_positions_goes_before_the_older_field() {
    let group = r#""rope_parameters": {"rope_type": "default", "rope_theta": 500.0}"#;
    assert_eq!(open(&with(MISTRAL, group)).model.rotary_base, 500.0);
    let without = r#""rope_parameters": {"rope_type": "default"}"#;
    assert_eq!(open(&with(MISTRAL, without)).model.rotary_base, 10_000.0);
}

#[test]
fn what_makes_another_model_of_the_same_weights_is_named() {
    let unlike = |text: &str| {
        let Published { unlike, .. } =
            published(text, Path::new("config.json")).unwrap_or_else(|error| panic!("{error}"));
        unlike.join("; ")
    };
    let timm =
        r#"{"architecture": "resnet18", "num_classes": 10, "model_args": {"num_classes": 10}, "global_pool": "avg"}"#;
    assert_eq!(unlike(timm), "");
    let other =
        timm.replace("{\"num_classes\": 10}", r#"{"act_layer": "silu", "output_stride": 8}"#).replace("avg", "max");
    assert_eq!(unlike(&other), "act_layer \"silu\"; output_stride 8; global_pool \"max\"");
    assert_eq!(unlike(&QWEN2.replace("Qwen2ForCausalLM", "GemmaForCausalLM")), "architectures \"GemmaForCausalLM\"");
    assert_eq!(unlike(&QWEN3.replace("Qwen3ForCausalLM", "Qwen3Model")), "");
    assert_eq!(unlike(&with(MISTRAL, r#""quantization_config": {"bits": 4}"#)), "quantization_config");
}
