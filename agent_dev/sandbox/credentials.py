"""Paths of passwords, tokens and keys: by program in the home, and by name in a repository."""

# Below the home, by program; a path that ends in a slash is a directory of credentials only. Where a shown directory has or
# could have one, the agent sees an empty file or an empty directory.
CREDENTIALS: dict[str, tuple[str, ...]] = {
    "age": (".config/sops/age/",),
    "asdf": (".asdf/.netrc",),
    "aws": (".aws/",),
    "azure": (".azure/",),
    "bundler": (".bundle/config",),
    "bun": (".bunfig.toml",),
    "cargo": (".cargo/credentials", ".cargo/credentials.toml"),
    "cdsapi": (".cdsapirc",),
    "claude": (".claude/.credentials.json", ".claude.json"),
    "codex": (".codex/auth.json",),
    "composer": (".composer/auth.json", ".config/composer/auth.json"),
    "conan": (".conan/.conan.db", ".conan2/credentials.json"),
    "conda": (".continuum/", ".config/anaconda/"),
    "copilot": (".config/github-copilot/",),
    "curl": (".curlrc",),
    "dart": (".config/dart/pub-tokens.json", ".config/dart/pub-credentials.json", ".pub-cache/credentials.json"),
    "databricks": (".databrickscfg",),
    "deno": (".deno/credentials.json",),
    "docker": (".docker/config.json", ".dockercfg"),
    "dotnet": (".dotnet/corefx/", ".microsoft/usersecrets/"),
    "fly": (".fly/config.yml",),
    "gcloud": (".config/gcloud/", ".boto"),
    "gem": (".gem/credentials", ".local/share/gem/credentials"),
    "gemini": (".gemini/oauth_creds.json",),
    "gh": (".config/gh/hosts.yml", ".config/hub"),
    "ghc": (".cabal/config", ".stack/config.yaml"),
    "git": (".git-credentials", ".config/git/credentials", ".cache/git/credential/"),
    "glab": (".config/glab-cli/config.yml",),
    "gnupg": (".gnupg/",),
    "gradle": (".gradle/gradle.properties", ".gradle/init.gradle", ".gradle/init.gradle.kts"),
    "hashicorp": (".terraformrc", ".terraform.d/credentials.tfrc.json", ".vault-token"),
    "helm": (".config/helm/registry/config.json",),
    "heroku": (".local/share/heroku/",),
    "hex": (".hex/hex.config",),
    "huggingface": (".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token"),
    "ivy": (".ivy2/.credentials",),
    "julia": (".julia/servers/",),
    "jupyter": (".jupyter/jupyter_server_config.json", ".local/share/jupyter/runtime/"),
    "kaggle": (".kaggle/",),
    "keyrings": (".local/share/keyrings/", ".local/share/kwalletd/", ".password-store/"),
    "kube": (".kube/",),
    "maven": (".m2/settings.xml", ".m2/settings-security.xml", ".m2/toolchains.xml"),
    "mercurial": (".hgrc", ".config/hg/hgrc"),
    "mise": (".config/mise/age.txt",),
    "mysql": (".my.cnf", ".mylogin.cnf"),
    "netlify": (".config/netlify/config.json", ".netlify/config.json"),
    "netrc": (".netrc", "_netrc", ".authinfo", ".authinfo.gpg"),
    "npm": (".npmrc", ".npm-global/etc/npmrc", ".nvm/.npmrc", ".config/npm/npmrc"),
    "nuget": (".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config"),
    "op": (".config/op/",),
    "pip": (".pip/pip.conf", ".config/pip/pip.conf"),
    "pnpm": (".local/share/pnpm/auth.ini", ".config/pnpm/auth.ini", ".config/pnpm/rc"),
    "podman": (".config/containers/auth.json",),
    "poetry": (".config/pypoetry/auth.toml",),
    "postgres": (".pgpass", ".pg_service.conf"),
    "pulumi": (".pulumi/credentials.json",),
    "pypi": (".pypirc",),
    "rclone": (".config/rclone/rclone.conf",),
    "s3cmd": (".s3cfg",),
    "sbt": (".sbt/.credentials", ".sbt/credentials"),
    "ssh": (".ssh/",),
    "subversion": (".subversion/auth/",),
    "twine": (".config/twine/",),
    "uv": (".local/share/uv/credentials/",),
    "vercel": (".local/share/com.vercel.cli/",),
    "wget": (".wgetrc",),
    "wrangler": (".wrangler/config/", ".config/.wrangler/"),
    "yarn": (".yarnrc", ".yarnrc.yml"),
}
CREDENTIAL_PATHS = tuple(path for paths in CREDENTIALS.values() for path in paths)

# Files that hold passwords or tokens in any directory, by lower-case name, with the content that replaces them: what their
# program reads as empty settings.
REPLACEMENTS: dict[str, bytes] = {
    "settings.xml": b"<settings/>\n",
    "settings-security.xml": b"<settingsSecurity/>\n",
    "nuget.config": b"<configuration/>\n",
    "auth.json": b"{}\n",
    "credentials.json": b"{}\n",
    **dict.fromkeys(
        (
            *("npmrc", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", ".bunfig.toml", "pip.conf", "pip.ini", ".pypirc"),
            *("gradle.properties", "gemrc", ".gemrc", "credentials", "credentials.toml", ".credentials", "auth.toml"),
            *(".netrc", "_netrc", ".pgpass", ".git-credentials", "git-credentials", "hosts.yml", ".dockercfg", ".vault-token"),
            *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
        ),
        b"",
    ),
}

# Lower-case names of likely secrets in a repository.
_NAMES = frozenset(
    (
        *(".env", ".netrc", ".pgpass", ".pypirc", ".htpasswd", ".git-credentials", ".vault-token", ".dockercfg", "kubeconfig"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "master.key", "credentials.json", "client_secret.json"),
        *("service-account.json", "serviceaccount.json", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml"),
    )
)
_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfvars", ".tfstate", ".env")
_SAMPLE_SUFFIXES = (".example", ".sample", ".template", ".dist", ".defaults", ".schema", ".pub", ".d.ts")


def credentials_below(folder: str, home: str) -> tuple[str, ...]:
    """Return the credentials that a directory has or could have, relative to it; those that are directories end in a slash."""
    prefix = folder.rstrip("/") + "/"
    if not prefix.startswith(home + "/"):
        return ()
    relative = prefix[len(home) + 1 :]
    return tuple(path[len(relative) :] for path in CREDENTIAL_PATHS if path.startswith(relative) and path != relative)


def is_credential(path: str, home: str) -> bool:
    """Return whether a path is itself a file or directory of credentials."""
    name = path.removeprefix(home + "/")
    return name in CREDENTIAL_PATHS or f"{name}/" in CREDENTIAL_PATHS


def looks_secret(name: str) -> bool:
    """Return whether a file's name suggests a password or a key."""
    name = name.lower()
    if name.endswith(_SAMPLE_SUFFIXES):
        return False
    return name in _NAMES or name.startswith(".env.") or name.endswith(_SUFFIXES)
