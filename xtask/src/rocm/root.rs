//! The root file system with genuine ROCm, from the Debian archive that apt uses.
//!
//! ```text
//! CACHE/sid/                      Debian sid with the libraries of ROCm 6.4
//!       sid/opt/rocm/             links to their headers and libraries, as an installed ROCm has them
//!       sid/opt/rocm7/            ROCm 7.2 from experimental, unpacked and not installed: it would replace the other
//!       done/STEP                 what a finished step was made from
//! ```
//!
//! The cache is `$XSCHED_ROCM_DIR`, else `xsched-rocm` in the cache folder of the user. An interrupted step is repeated, with the
//! packages that apt has already fetched. A finished one is repeated only when its list changes: remove the folder for newer versions.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use super::inside::Inside;
use crate::command;

/// Headers and libraries, and what `tests/vm/boot.sh` wants. `hipcc` depends on the compilers that MIOpen calls. 9 GB with what they need.
const PACKAGES: [&str; 15] = [
    "kmod",
    "libamdhip64-6",
    "libamdhip64-dev",
    "hipcc",
    "libhipblas-dev",
    "librocblas-dev",
    "libhipblaslt-dev",
    "libmiopen-dev",
    "librocfft-dev",
    "librocrand-dev",
    "librocsparse-dev",
    "migraphx-dev",
    "libmigraphx-c-dev",
    "llama.cpp",
    "libggml0-backend-hip",
];

/// Unpacked from experimental. Without hipBLAS, which needs two more gigabytes of rocSOLVER.
const PACKAGES_7: [&str; 7] = [
    "libamdhip64-7",
    "libamdhip64-dev",
    "libhiprtc7",
    "libhsa-runtime64-1",
    "librocblas5",
    "librocrand1",
    "librocprofiler-register-0",
];

/// What of `/usr/include` belongs to ROCm. Debian has it beside the C library's headers, which other compilers must not find.
const HEADERS: [&str; 14] = [
    "amd_comgr",
    "hip",
    "hipblas",
    "hipblas-common",
    "hipblaslt",
    "hipblaslt-export.h",
    "hipblaslt-version.h",
    "hsa",
    "migraphx",
    "miopen",
    "rocblas",
    "rocfft",
    "rocrand",
    "rocsparse",
];

const WRAPPER: &str = include_str!("../../../tests/rocm/clang++-21");

/// AMD's library that hands a runtime's dispatch tables to tools; Debian's runtimes are built without it.
pub(super) const REGISTER: &str = "librocprofiler-register.so.0";

/// Where Debian has libraries.
pub(super) const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// As the file system is, once it is made.
pub(crate) struct Root {
    cache: PathBuf,
}

impl Root {
    /// Takes the steps that were not taken yet.
    pub(crate) fn make() -> Result<Self> {
        let root = Self { cache: cache()? };
        let done = root.cache.join("done");
        fs::create_dir_all(&done).with_context(|| format!("failed to create {}", done.display()))?;
        // One at a time makes it; the lock goes with the descriptor.
        let lock = fs::File::create(root.cache.join("lock")).context("failed to create the cache's lock")?;
        lock.lock().context("failed to lock the cache")?;

        let mirror = mirror()?;
        // A step is repeated if one before it was.
        let mut made_from = "sid experimental".to_owned();
        root.once("base", &made_from, |root| root.base(&mirror))?;
        made_from += &PACKAGES.join(" ");
        root.once("packages", &made_from, Self::packages)?;
        made_from += &PACKAGES_7.join(" ");
        root.once("rocm7", &made_from, Self::rocm7)?;
        made_from += &(HEADERS.join(" ") + REGISTER + WRAPPER);
        root.once("links", &made_from, Self::links)?;
        Ok(root)
    }

    /// `/` of the file system.
    pub(crate) fn path(&self) -> PathBuf {
        self.cache.join("sid")
    }

    /// ROCm 6.4 as `conformance --rocm` takes it.
    pub(super) fn rocm(&self) -> PathBuf {
        self.path().join("opt/rocm")
    }

    /// Name and version of each package of the lists.
    pub(super) fn versions(&self) -> Result<Vec<String>> {
        let mut query = Inside::new(&self.path()).command("dpkg-query");
        query.args(["-W", "-f", "${Package} ${Version}\n"]).args(PACKAGES);
        let installed = query.output().context("failed to start bwrap")?;
        let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
        let unpacked = fs::read_to_string(self.unpacked()).unwrap_or_default();
        Ok(installed.lines().chain(unpacked.lines()).map(str::to_owned).collect())
    }

    /// Takes a step unless it was taken from the same list.
    fn once(&self, step: &str, made_from: &str, make: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let done = self.cache.join("done").join(step);
        if fs::read_to_string(&done).is_ok_and(|was| was == made_from) {
            return Ok(());
        }
        eprintln!("rocm: making {step} in {}", self.cache.display());
        make(self).with_context(|| format!("failed to make {step}"))?;
        fs::write(&done, made_from).with_context(|| format!("failed to write {}", done.display()))
    }

    /// Debian sid with apt, which also knows experimental.
    fn base(&self, mirror: &str) -> Result<()> {
        let parts = self.cache.join("sid.parts");
        for left in [&parts, &self.path()] {
            let _ = fs::remove_dir_all(left); // left from an interrupted run, or made from something else
        }
        let mut bootstrap = command::command("mmdebstrap");
        bootstrap.arg("--variant=apt").args(APT_OPTIONS.map(|option| format!("--aptopt={option}")));
        bootstrap.arg("sid").arg(&parts);
        bootstrap.args(["sid", "experimental"].map(|suite| format!("deb {mirror} {suite} main")));
        command::run(&mut bootstrap)?;
        fs::rename(&parts, self.path()).context("failed to rename the file system")
    }

    fn packages(&self) -> Result<()> {
        self.apt(&["update"])?;
        self.apt(&[&["install", "-y", "--no-install-recommends"][..], &PACKAGES].concat())?;
        self.apt(&["clean"])
    }

    fn rocm7(&self) -> Result<()> {
        self.apt(&["update"])?;
        // Below the root, so that what an interrupted run has fetched is still there.
        let script = format!(
            "rm -rf /opt/rocm7 && mkdir -p /var/tmp/rocm7 /opt/rocm7 && cd /var/tmp/rocm7 && apt-get -q -t experimental download {} && \
             for package in *.deb; do dpkg -x $package /opt/rocm7; done && \
             for package in *.deb; do dpkg-deb -W $package; done >/opt/rocm7/versions && rm -r /var/tmp/rocm7",
            PACKAGES_7.join(" "),
        );
        command::run(Inside::apart(&self.path()).command("sh").args(["-ec", &script]))
    }

    fn apt(&self, words: &[&str]) -> Result<()> {
        command::run(Inside::apart(&self.path()).command("apt-get").arg("-q").args(words))
    }

    fn links(&self) -> Result<()> {
        let include = self.rocm().join("include");
        fs::create_dir_all(&include).with_context(|| format!("failed to create {}", include.display()))?;
        for header in HEADERS {
            link(&format!("../../../usr/include/{header}"), &include.join(header))?;
        }
        link(&format!("../../{LIBRARIES}"), &self.rocm().join("lib"))?;
        let rocm7 = self.path().join("opt/rocm7");
        link("usr/include", &rocm7.join("include"))?;
        link(LIBRARIES, &rocm7.join("lib"))?;
        // In a folder of its own, so that nothing else of that release is found there.
        let register = self.path().join("opt/register");
        fs::create_dir_all(&register).with_context(|| format!("failed to create {}", register.display()))?;
        link(&format!("../rocm7/{LIBRARIES}/{REGISTER}"), &register.join(REGISTER))?;
        self.compiler_of_miopen()
    }

    /// Debian's MIOpen calls the compiler of the folder in which it was built, and another with arguments that need a wrapper.
    fn compiler_of_miopen(&self) -> Result<()> {
        let installed = self.versions()?;
        let version = installed.iter().find_map(|line| line.strip_prefix("libmiopen-dev "));
        let Some((upstream, _)) = version.and_then(|version| version.rsplit_once('-')) else { return Ok(()) };
        let folder = self.path().join(format!("build/reproducible-path/miopen-{upstream}/build"));
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        link("/usr/bin/clang-21", &folder.join("clang-21"))?;
        let wrapper = self.path().join("usr/bin/clang++-21");
        let _ = fs::remove_file(&wrapper); // a link to the compiler, which must stay
        fs::write(&wrapper, WRAPPER).with_context(|| format!("failed to write {}", wrapper.display()))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&wrapper, executable)
            .with_context(|| format!("failed to set {}", wrapper.display()))
    }

    fn unpacked(&self) -> PathBuf {
        self.path().join("opt/rocm7/versions")
    }
}

/// They stay in the file system, for its apt. A mirror may be behind, and apt's own user may not reach the cache of this user.
const APT_OPTIONS: [&str; 3] =
    ["Acquire::Check-Valid-Until \"false\"", "Acquire::Retries \"5\"", "APT::Sandbox::User \"root\""];

fn cache() -> Result<PathBuf> {
    let folder = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = folder("XSCHED_ROCM_DIR") {
        return std::path::absolute(&chosen).with_context(|| format!("no folder `{}`", chosen.display()));
    }
    let caches = folder("XDG_CACHE_HOME").filter(|caches| caches.is_absolute());
    let home = || folder("HOME").map(|home| home.join(".cache"));
    Ok(caches.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("xsched-rocm"))
}

/// The mirror of Debian that apt uses.
fn mirror() -> Result<String> {
    let mut apt = command::command("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]);
    let targets = command::output(&mut apt)?;
    let first = targets.lines().next().unwrap_or_default();
    ensure!(!first.is_empty(), "apt of this machine knows no mirror of Debian");
    Ok(first.to_owned())
}

fn link(target: &str, link: &Path) -> Result<()> {
    let _ = fs::remove_file(link); // of an earlier list
    symlink(target, link).with_context(|| format!("failed to create {}", link.display()))
}
