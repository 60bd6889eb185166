//! Names of the errors that the driver returns.

/// Name of an errno; none for one that neither amdgpu nor the layers above it return.
pub(super) fn name(errno: i64) -> Option<&'static str> {
    macro_rules! names {
        ($($name:ident)*) => {
            match i32::try_from(errno).ok()? {
                // The kernel's internal ones, which tell ioctl(2) to restart after a signal
                // ([`linux/errno.h`](https://github.com/torvalds/linux/blob/v6.12/include/linux/errno.h)); fentry sees
                // them.
                512 => "ERESTARTSYS",
                513 => "ERESTARTNOINTR",
                514 => "ERESTARTNOHAND",
                516 => "ERESTART_RESTARTBLOCK",
                $(libc::$name => stringify!($name),)*
                _ => return None,
            }
        };
    }
    Some(names! {
        EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV
        ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK
        ENAMETOOLONG ENOSYS ENOTEMPTY ENODATA ETIME ENOLINK EPROTO EBADMSG EOVERFLOW EOPNOTSUPP ENOBUFS ETIMEDOUT
        EALREADY EINPROGRESS ESTALE EREMOTEIO ECANCELED EOWNERDEAD EHWPOISON
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_kernels_names() {
        assert_eq!(name(25), Some("ENOTTY"));
        assert_eq!(name(12), Some("ENOMEM"));
        assert_eq!(name(512), Some("ERESTARTSYS"));
        assert_eq!(name(0), None);
        assert_eq!(name(100_000), None);
    }
}
