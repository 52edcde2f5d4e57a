# brew install --HEAD --formula packaging/homebrew/pulsarscope.rb, in a clone.
class Pulsarscope < Formula
  include Language::Python::Virtualenv

  desc "Reads packet captures of the Apache Pulsar binary protocol"
  license all_of: ["Apache-2.0", "MIT"]
  head File.expand_path("../..", __dir__), using: :git

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python", libexec/"bin/python", "install", buildpath.to_s
    bin.install_symlink libexec/"bin/pulsarscope"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/pulsarscope"
    zsh_completion.install "share/zsh/site-functions/_pulsarscope"
    fish_completion.install "share/fish/vendor_completions.d/pulsarscope.fish"
  end

  test do
    assert_match "captures", shell_output("#{bin}/pulsarscope --help")
    system bin/"pulsarscope", "selftest"
  end
end
