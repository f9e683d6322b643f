// TlsContext: what OpenSSL has to know of a user's TlsFiles. OpenSSL is not even loaded before the
// first one is asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/etcd/tls_files.hpp"

namespace boost::asio::ssl {
class context;
}
struct ssl_st;

namespace ddprun::inline job {

class TlsContext {
  public:
    explicit TlsContext(TlsFiles files);
    ~TlsContext();

    // As the files are now: certificates are renewed while a job runs. Where they have become unusable (one is being
    // written), as they were. Throws Error, which names the file and a remedy, if they never were usable. Blocking, short.
    boost::asio::ssl::context& current();

    const TlsFiles& files() const { return files_; }

  private:
    using Stamp = std::array<std::int64_t, 5>;  // a file's device, number, size and time

    std::vector<Stamp> stamps() const;

    TlsFiles files_;
    std::vector<Stamp> stamps_;  // when they were last read
    std::unique_ptr<boost::asio::ssl::context> context_;
};

// Why these files cannot be used, in a line that names the one and a remedy; nothing if they can.
std::optional<std::string> complaint_about(const TlsFiles& files);

// A connection is to be taken for that of `host`, a name or an address, only if the certificate is for that one.
void expect_host(ssl_st* connection, const std::string& host);

}  // namespace ddprun::inline job
