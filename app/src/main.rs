//! Plimsoll: tune neural-network training inside a memory budget.

mod app;
mod command;
mod dispatch;
mod files;
mod frames;
mod history;
mod layout;
mod panels;
mod planner;
mod presets;
mod session;
mod state;
mod theme;
mod view;
mod widgets;
mod window;
mod words;

fn main() -> anyhow::Result<()> {
    window::run(std::env::args_os().nth(1).map(Into::into))
}
