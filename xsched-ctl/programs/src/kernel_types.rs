//! Offsets in the kernel's types that the programs need, from the kernel's BTF (<https://docs.kernel.org/bpf/btf.html>).

use std::io;
use std::path::Path;

use btf_rs::{Btf, Struct, Type};
use xsched_abi::DriverConfig;
use xsched_protocol::{arbiter_page::KernelOffsets, verdict::OriginConfig};

/// Why the kernel's types could not be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum TypesError {
    #[error("cannot read {path}: {cause}")]
    Read { path: String, cause: btf_rs::Error },
    #[error("the kernel's BTF has no {0}")]
    Missing(String),
    /// The module is loaded, but its BTF cannot be opened.
    #[error("cannot open the BTF of {module}: {cause}")]
    Module { module: &'static str, cause: io::Error },
}

/// The kernel's BTF.
pub struct KernelTypes(Btf);

const FOLDER: &str = "/sys/kernel/btf";

impl KernelTypes {
    /// Reads the BTF. It has more than a hundred thousand types, so this takes some milliseconds.
    pub fn read() -> Result<Self, TypesError> {
        let path = Path::new(FOLDER).join("vmlinux");
        Btf::from_file(&path).map(Self).map_err(|cause| read_error(&path, cause))
    }

    /// The offsets that lead from a file descriptor to its device number.
    pub fn descriptor_offsets(&self) -> Result<DriverConfig, TypesError> {
        Ok(DriverConfig {
            report_opening: 0,
            has_offsets: 1,
            task_files: self.offset("task_struct", "files")?,
            files_fdt: self.offset("files_struct", "fdt")?,
            fdtable_max_fds: self.offset("fdtable", "max_fds")?,
            fdtable_fd: self.offset("fdtable", "fd")?,
            file_inode: self.offset("file", "f_inode")?,
            inode_rdev: self.offset("inode", "i_rdev")?,
        })
    }

    /// The offsets that lead to the number of a process's remaining threads.
    pub fn thread_count_offsets(&self) -> Result<KernelOffsets, TypesError> {
        Ok(KernelOffsets {
            task_signal: self.offset("task_struct", "signal")?,
            signal_live: self.offset("signal_struct", "live")?,
        })
    }

    /// The offsets that lead to the return addresses that return probes have replaced.
    pub fn replaced_address_offsets(&self) -> Result<OriginConfig, TypesError> {
        Ok(OriginConfig {
            task_utask: self.offset("task_struct", "utask")?,
            utask_instances: self.offset("uprobe_task", "return_instances")?,
            instance_stack: self.offset("return_instance", "stack")?,
            instance_address: self.offset("return_instance", "orig_ret_vaddr")?,
            instance_next: self.offset("return_instance", "next")?,
            ..OriginConfig::default()
        })
    }

    /// The offset of a member in a struct, in bytes.
    fn offset(&self, name: &str, member: &str) -> Result<u32, TypesError> {
        let types = self.0.resolve_types_by_name(name).unwrap_or_default();
        types
            .iter()
            .filter_map(|found| if let Type::Struct(found) = found { Some(found) } else { None })
            .find_map(|found| self.bit_offset(found, member))
            .map(|bits| bits / 8)
            .ok_or_else(|| TypesError::Missing(format!("`{member}` in `struct {name}`")))
    }

    /// Members of unnamed structs and unions inside count as members of the struct.
    fn bit_offset(&self, of: &Struct, name: &str) -> Option<u32> {
        of.members.iter().find_map(|member| {
            let member_name = self.0.resolve_name(member).unwrap_or_default();
            if member_name == name {
                return Some(member.bit_offset());
            }
            if !member_name.is_empty() {
                return None;
            }
            match self.0.resolve_chained_type(member).ok()? {
                Type::Struct(inner) | Type::Union(inner) => {
                    Some(member.bit_offset() + self.bit_offset(&inner, name)?)
                }
                _ => None,
            }
        })
    }

    /// The ids of a module's functions, in the order of `names`.
    pub fn module_functions(&self, module: &str, names: &[&str]) -> Result<Vec<u32>, TypesError> {
        let path = Path::new(FOLDER).join(module);
        let btf = Btf::from_split_file(&path, &self.0).map_err(|cause| read_error(&path, cause))?;
        let id_of = |name: &&str| {
            let ids = btf.resolve_ids_by_name(name).unwrap_or_default();
            let mut functions =
                ids.into_iter().filter(|id| matches!(btf.resolve_type_by_id(*id), Ok(Type::Func(_))));
            functions.next().ok_or_else(|| TypesError::Missing(format!("function `{name}` in {module}")))
        };
        names.iter().map(id_of).collect()
    }
}

fn read_error(path: &Path, cause: btf_rs::Error) -> TypesError {
    TypesError::Read { path: path.display().to_string(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs BTF"]
    fn offsets_are_found_in_this_kernels_btf() {
        let types = KernelTypes::read().unwrap();
        let found = types.descriptor_offsets().unwrap();
        // Inodes begin with their mode, so the offset of the device number is not 0; pointers are aligned.
        assert!(found.inode_rdev != 0 && found.inode_rdev.is_multiple_of(4), "{found:?}");
        for offset in [found.task_files, found.files_fdt, found.fdtable_fd, found.file_inode] {
            assert!(offset.is_multiple_of(8), "{found:?}");
        }
        let threads = types.thread_count_offsets().unwrap();
        assert!(
            threads.task_signal.is_multiple_of(8) && threads.signal_live.is_multiple_of(4),
            "{threads:?}"
        );
        let replaced = types.replaced_address_offsets().unwrap();
        assert!(
            replaced.task_utask != 0 && replaced.instance_stack != replaced.instance_address,
            "{replaced:?}"
        );
        let error = types.offset("task_struct", "no_such_member").unwrap_err();
        assert_eq!(error.to_string(), "the kernel's BTF has no `no_such_member` in `struct task_struct`");
    }
}
