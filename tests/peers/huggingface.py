#!/usr/bin/env python3
"""Weights in and weights out, held against transformers, peft, timm and torchvision, with random weights and no download.

    cargo build --release -p plimsoll && cargo build --release -p plimsoll-tests --example one_batch
    python tests/peers/huggingface.py [--target target/release] [--only gpt2,llama]

Needs torch, transformers, peft, timm, torchvision and safetensors. For each architecture:

  in      theirs is saved by its own library and opened here: logits and the loss of one batch within 1e-5 of the largest,
          the gradient of every parameter within 1e-4 of its largest from torch's in f64, the losses of 20 steps of plain
          gradient descent within 1e-3; ours in f32. Where there are batch norms, all but the logits in f64: three samples
          a batch leave them little, and torch's own loss in f32 is about as far from that in f64 as ours (both are printed)
  out     what `plimsoll train` made of those weights in 2 steps is exported and loaded by their library: the same
  lora    adapters of a short run are exported and loaded by peft, and merged and loaded by transformers: the same logits
"""
import argparse, copy, json, math, subprocess, sys, tempfile
from pathlib import Path
import torch, torch.nn.functional as F
from safetensors.torch import load_file, save_file

torch.manual_seed(7)
LENGTH, VOCABULARY, SAMPLES, CLASSES, STEPS, RATE = 12, 40, 3, 5, 20, 0.05


def transformers_model(name):
    import transformers as t
    t.utils.logging.disable_progress_bar()
    decoder = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                   max_position_embeddings=64, attention_dropout=0.0, bos_token_id=None, eos_token_id=None)
    models = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=2, rms_norm_eps=1e-5, **decoder)),
        "llama-eps": lambda: t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=4, rms_norm_eps=1e-3,
                                                              tie_word_embeddings=True, **decoder)),
        "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(num_key_value_heads=2, sliding_window=5, head_dim=8, **decoder)),
        "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(num_key_value_heads=2, rope_parameters={
            "rope_type": "default", "rope_theta": 1e6}, **decoder)),
        "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(num_key_value_heads=2, head_dim=16, **decoder)),
        "vit": lambda: t.ViTForImageClassification(t.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4,
            num_labels=CLASSES)),
    }
    return models[name]()


def torchvision_model(name):
    import torchvision.models as v
    makers = {"resnet18": v.resnet18, "resnet34": v.resnet34, "resnet50": v.resnet50, "resnet101": v.resnet101,
              "mobilenet_v2": lambda num_classes: v.mobilenet_v2(num_classes=num_classes, dropout=0.0)}
    return makers[name](num_classes=CLASSES)


def timm_model(name):
    import timm
    arguments = dict(img_size=32) if name.startswith("vit") else {}
    return timm.create_model(name, num_classes=CLASSES, **arguments)


DECODERS = ["gpt2", "llama", "llama-eps", "mistral", "qwen2", "qwen3"]
VISION = ["vit"]
TORCHVISION = ["resnet18", "resnet34", "resnet50", "resnet101", "mobilenet_v2"]
TIMM = ["timm:resnet18", "timm:resnet34", "timm:resnet50", "timm:resnet101", "timm:mobilenetv2_100", "timm:vit_tiny_patch16_224"]


def shuffled(model):
    """Every parameter random: zeros and ones would hide what is mixed up."""
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if not tensor.is_floating_point() or "inv_freq" in name:
            continue
        with torch.no_grad():
            if "running_var" in name:
                tensor.copy_(torch.rand_like(tensor) + 0.5)
            elif tensor.dim() > 1:
                tensor.copy_(torch.randn_like(tensor) * (1.2 / math.sqrt(tensor[0].numel())))
            else:
                tensor.copy_(tensor + 0.2 * torch.randn_like(tensor))
    return model.eval()


def logits_of(model, inputs):
    output = model(inputs)
    output = getattr(output, "logits", output)
    return output.reshape(-1, output.shape[-1])


def batch_for(name):
    if name in DECODERS:
        return torch.randint(0, VOCABULARY, (SAMPLES, LENGTH)), torch.randint(0, VOCABULARY, (SAMPLES * LENGTH,)), VOCABULARY
    side = 16 if name == "vit" else 32 if "vit" in name else 64
    return torch.randn(SAMPLES, 3, side, side), torch.randint(0, CLASSES, (SAMPLES,)), CLASSES


def is_normed(name):
    return "resnet" in name or "mobilenet" in name


class Failed(Exception):
    pass


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(str(part) for part in command)}\n{done.stderr.strip()}")
    return done.stdout


def near(what, ours, theirs, allowed):
    """The largest difference, as a share of the largest number or of 1."""
    share = (ours.double() - theirs.double()).abs().max().item() / max(1.0, theirs.abs().max().item())
    if not share <= allowed:
        raise Failed(f"{what}: {share:.2e} apart, and {allowed:.0e} is allowed")
    return share


def compare(name, model, folder, scratch, one_batch, steps=STEPS):
    inputs, labels, classes = batch_for(name)
    ours_in = inputs if inputs.dim() == 2 else inputs.permute(0, 2, 3, 1)
    path, out = scratch / "batch.safetensors", scratch / "out"
    save_file({"inputs": ours_in.contiguous().to(torch.uint32 if inputs.dim() == 2 else torch.float32),
               "labels": labels.to(torch.uint32)}, path)
    run(one_batch, folder, path, classes, "f32", steps, RATE, out)
    ours, gradients = load_file(out / "results.safetensors"), load_file(out / "gradients/model.safetensors")
    losses = ours["losses"] if steps else None
    found = {"logits": near("logits", ours["logits"], logits_of(model.eval(), inputs).detach(), 1e-5)}
    model.train()
    loss = F.cross_entropy(logits_of(model, inputs), labels)
    loss.backward()
    exact = copy.deepcopy(model).double()
    exact.zero_grad()
    wide = inputs if inputs.dim() == 2 else inputs.double()
    exact_loss = F.cross_entropy(logits_of(exact, wide), labels)
    exact_loss.backward()
    if is_normed(name):
        # What rounding leaves grows from batch norm to batch norm, in either library: there the two are compared in f64.
        found["loss in f32"] = abs(ours["loss"][0].item() - exact_loss.item())
        found["torch's loss"] = abs(loss.item() - exact_loss.item())
        run(one_batch, folder, path, classes, "f64", steps, RATE, out)
        gradients, results = load_file(out / "gradients/model.safetensors"), load_file(out / "results.safetensors")
        losses = results["losses"] if steps else None
        found["loss"] = near("loss in f64", results["loss"][0], exact_loss.detach(), 1e-5)
    else:
        found["loss"] = near("loss", ours["loss"][0], loss.detach(), 1e-5)
    exact = {name: tensor.grad for name, tensor in exact.named_parameters()}
    worst, theirs_worst, count = 0.0, 0.0, 0
    for parameter, tensor in model.named_parameters():
        theirs = published(model, parameter)
        if theirs not in gradients:
            raise Failed(f"no gradient of {theirs}; there are {list(gradients)[:5]}")
        count += 1
        largest = max(exact[parameter].abs().max().item(), 1e-3)
        apart = lambda gradient: (gradient.double() - exact[parameter]).abs().max().item() / largest
        share, own = apart(gradients[theirs]), apart(tensor.grad)
        if not share <= 1e-4:
            raise Failed(f"gradient of {theirs}: {share:.2e} of its largest apart from f64's, torch's in f32 {own:.2e}")
        worst, theirs_worst = max(worst, share), max(theirs_worst, own)
    found["gradients"], found["torch's"], found["of"] = worst, theirs_worst, count
    if steps:
        if is_normed(name):
            model, inputs = model.double(), inputs.double()
        model.zero_grad()
        optimizer, worst = torch.optim.SGD(model.parameters(), lr=RATE), 0.0
        for step in range(steps):
            loss = F.cross_entropy(logits_of(model, inputs), labels)
            worst = max(worst, abs(loss.item() - losses[step].item()))
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        if not worst <= 1e-3:
            raise Failed(f"losses of {steps} steps: {worst:.2e} apart")
        found["steps"] = worst
    return found


def published(model, parameter):
    """The name in a file of a parameter's name in memory: they differ where a library has renamed its layers since."""
    names = getattr(model, "_names_in_file", None)
    return names[parameter] if names else parameter


def names_in_file(model, folder):
    """By number: every parameter is filled with a number of its own, and the file says which is which."""
    kept = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    with torch.no_grad():
        for number, tensor in enumerate(model.parameters()):
            tensor.fill_(number)
    model.save_pretrained(folder)
    by_number = {int(tensor.flatten()[0]): name for name, tensor in load_file(folder / "model.safetensors").items()}
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(kept[name])
    return {name: by_number[number] for number, (name, _) in enumerate(model.named_parameters())}


def theirs_in(name, folder, scratch):
    """A model of theirs, saved as its library saves it."""
    folder.mkdir()
    if name in DECODERS + VISION:
        model = shuffled(transformers_model(name))
        model._names_in_file = names_in_file(model, scratch / "names")
        model.save_pretrained(folder)
    elif name.startswith("timm:"):
        from timm.models import save_for_hf
        model = shuffled(timm_model(name[5:]))
        arguments = dict(img_size=32) if name[5:].startswith("vit") else None
        save_for_hf(model, folder, model_args=arguments, safe_serialization=True)
    else:
        model = shuffled(torchvision_model(name))
        if name == "mobilenet_v2":
            # What goes out has timm's names, in the same order.
            import timm
            own, theirs = model.named_parameters(), timm.create_model("mobilenetv2_100").named_parameters()
            model._names_in_file = {a: b for (a, _), (b, _) in zip(own, theirs)}
        save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"architecture": name.replace("mobilenet_v2", "mobilenetv2_100"),
                                                         "num_classes": CLASSES}))
    return model


def exported_to(name, folder):
    """The exported folder, loaded by their library."""
    if name in DECODERS:
        import transformers
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if name in VISION:
        import transformers
        return transformers.AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
    state = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    if name.startswith("resnet"):
        model = torchvision_model(name)
    else:
        import timm
        model = timm.create_model(config["architecture"], **{**config.get("model_args", {}), "num_classes": config["num_classes"]})
    model.load_state_dict(state)
    return model.eval()


def trained(plimsoll, folder, store, *settings):
    changes = [part for setting in settings for part in ("--set", setting)]
    run(plimsoll, "train", folder, "--quiet", "--store", store, "--set", "run.steps=2", "--set", f"batch.micro={SAMPLES}",
        *changes)


def check(name, plimsoll, one_batch):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        folder, store, out = scratch / "theirs", scratch / "store", scratch / "exported"
        model = theirs_in(name, folder, scratch)
        found = compare(name, model, folder, scratch, one_batch)
        print(f"{name:<28} in   {found}", flush=True)
        decoder = [f"data.length={LENGTH}", "data.samples=60"] if name in DECODERS else ["data.samples=60"]
        if name not in DECODERS:
            side = batch_for(name)[0].shape[2]
            decoder += [f"data.side={side}", f"data.classes={CLASSES}"]
        trained(plimsoll, folder, store, *decoder)
        run(plimsoll, "export", "last", "--store", store, "--format", "huggingface", "-o", out)
        model = exported_to(name, out)
        if name in DECODERS + VISION:
            model._names_in_file = names_in_file(model, scratch / "names")
        found = compare(name, model, out, scratch, one_batch, steps=0)
        print(f"{name:<28} out  {found}", flush=True)
        if name in ("gpt2", "llama", "qwen2"):
            lora(name, plimsoll, one_batch, scratch, folder, decoder)


def lora(name, plimsoll, one_batch, scratch, folder, settings):
    import peft, transformers
    store, adapters, merged = scratch / "lora", scratch / "adapters", scratch / "merged"
    trained(plimsoll, folder, store, *settings, "lora.rank=4", "frozen=all", "optimizer.learning_rate=0.05")
    run(plimsoll, "export", "last", "--store", store, "--format", "huggingface", "-o", adapters)
    run(plimsoll, "export", "last", "--store", store, "--format", "huggingface", "--merge", "-o", merged)
    inputs, _, _ = batch_for(name)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    before = logits_of(base, inputs).detach()
    adapted = logits_of(peft.PeftModel.from_pretrained(base, adapters).eval(), inputs).detach()
    whole = transformers.AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).eval()
    if (adapted - before).abs().max() < 1e-3:
        raise Failed("the adapters change nothing")
    found = near("logits of adapters and of the merged model", logits_of(whole, inputs).detach(), adapted, 1e-5)
    print(f"{name:<28} lora {{'logits': {found}}}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, default=Path("target/release"), help="where the program was built")
    parser.add_argument("--only", default=",".join(DECODERS + VISION + TORCHVISION + TIMM))
    arguments = parser.parse_args()
    plimsoll, one_batch = arguments.target / "plimsoll", arguments.target / "examples/one_batch"
    failed = 0
    for name in arguments.only.split(","):
        try:
            check(name, plimsoll.resolve(), one_batch.resolve())
        except Failed as error:
            failed += 1
            print(f"{name:<28} FAILED: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
