// TlsFiles: the user's files for TLS to etcd, all of them PEM. Pure.
#pragma once

#include <string>

namespace ddprun::inline job {

struct NamedFile {
    std::string option;  // as the user named it, for errors: "--rdzv-conf cacert"
    std::string path;    // empty: not given

    bool is_given() const { return !path.empty(); }
};

struct TlsFiles {
    NamedFile ca;    // who vouches for etcd; not given: those whom this machine trusts
    NamedFile cert;  // this agent's own, where etcd wants one, …
    NamedFile key;   // … and the key of it; not given: it is in the file of `cert`
};

}  // namespace ddprun::inline job
