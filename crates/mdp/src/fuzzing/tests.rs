#[path = "../../../../fuzz/run_corpus.rs"]
mod run_corpus;

#[test]
fn what_an_exchange_sends_is_survived() {
    let files = run_corpus::run("mdp", super::fuzz_mdp);
    assert!(files >= 8, "only {files} files");
}
