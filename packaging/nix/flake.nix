# Not tried: it was written from nixpkgs' documentation. `nix run 'git+https://example.org/agent-dev?dir=packaging/nix'`
{
  description = "Sandbox launcher for coding agents";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forEachSystem = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEachSystem (pkgs: {
        default = pkgs.python3Packages.buildPythonApplication {
          pname = "agent-dev";
          version = "0.1.0";
          pyproject = true;
          src = ../..;
          build-system = [ pkgs.python3Packages.hatchling ];
          dependencies = with pkgs.python3Packages; [ cryptography h11 pygit2 pyyaml textual ];
          pythonRelaxDeps = true;
          makeWrapperArgs = [ "--prefix PATH : ${pkgs.lib.makeBinPath [ pkgs.bubblewrap pkgs.git ]}" ];
          doCheck = false; # the tests need a sandbox of their own
          meta = {
            description = "Sandbox launcher for coding agents";
            license = pkgs.lib.licenses.mit;
            platforms = pkgs.lib.platforms.linux;
            mainProgram = "agent-dev";
          };
        };
      });
    };
}
