// EtcdOptions says where etcd is, how it is asked, and under which prefix jobs have their keys. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::uint16_t kDefaultEtcdPort = 2379;

struct NamedFile {
    std::string option;  // as the user named it, for errors: "--rdzv-conf cacert"
    std::string path;    // empty: not given

    bool is_given() const { return !path.empty(); }
};

// TlsFiles are the user's files for TLS to etcd, all of them PEM.
struct TlsFiles {
    NamedFile ca;    // the authorities that vouch for etcd; not given: those that this machine trusts
    NamedFile cert;  // this agent's own certificate, where etcd wants one, …
    NamedFile key;   // … and its key; not given: the key is in the file of `cert`
};

struct EtcdOptions {
    std::vector<Endpoint> endpoints;           // of one cluster, at least one
    std::string prefix = "/torchelastic/p2p";  // the default is torchrun's; without a slash at its end
    std::optional<TlsFiles> tls;               // nothing: etcd is asked by plain HTTP
};

// Reads HOST or HOST:PORT, separated by commas; nothing if one of them has another form.
inline std::optional<std::vector<Endpoint>> parse_etcd_endpoints(std::string_view text) {
    std::vector<Endpoint> endpoints;
    for (const std::string_view part : split_at(text, ',')) {
        const auto endpoint = parse_endpoint(part, kDefaultEtcdPort);
        if (!endpoint || endpoint->port == 0) return std::nullopt;
        endpoints.push_back(*endpoint);
    }
    return endpoints;
}

// Returns "gpu01:2379,gpu02:2379".
inline std::string to_string(const std::vector<Endpoint>& endpoints) {
    std::string text;
    for (const Endpoint& endpoint : endpoints) text += (text.empty() ? "" : ",") + to_string(endpoint);
    return text;
}

}  // namespace job
}  // namespace ddprun
