// TlsContext and TlsStream are TLS to etcd: the user's files, and the connections made by them.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/etcd/etcd_options.hpp"

namespace boost::asio::ssl {
class context;
}
struct ssl_st;

namespace ddprun {
inline namespace job {

// TlsContext holds what OpenSSL has to know of a user's TlsFiles.
class TlsContext {
  public:
    explicit TlsContext(TlsFiles files);
    ~TlsContext();

    // Returns the context for the files as they are now: certificates are renewed while a job runs. While
    // they are unusable (one is being written), the context stays as it was. Throws Error, which names the
    // file and a remedy, if they never were usable. Blocking, short.
    boost::asio::ssl::context& current();

    const TlsFiles& files() const { return files_; }

  private:
    using Stamp = std::array<std::int64_t, 5>;  // a file's device, number, size and time

    std::vector<Stamp> stamps() const;

    TlsFiles files_;
    std::vector<Stamp> stamps_;  // when they were last read
    std::unique_ptr<boost::asio::ssl::context> context_;
};

// Says in a line why these files, or TLS at all, cannot be used, and names a remedy; nothing if they can.
std::optional<std::string> complaint_about(const TlsFiles& files);

// Makes OpenSSL accept the connection only if the certificate is for `host`, a name or an address.
void expect_host(ssl_st* connection, const std::string& host);

// TlsTrouble says why a connection over TLS failed.
struct TlsTrouble {
    std::string words;      // to stand behind the server's name, with a remedy where there is one
    bool is_final = false;  // a repetition is in vain
};

// Says why a handshake failed. `verdict` is OpenSSL's on the server's certificate, X509_V_OK if that is not
// at fault.
TlsTrouble handshake_trouble(const boost::system::error_code& error, long verdict, const TlsFiles& files);

// Says whether the error is TLS's own. An error of TLS may also come after the handshake, where the other
// side wants another certificate; handshake_trouble says what it means.
bool is_tls_word(const boost::system::error_code& error);

// ByteStream is a connection with or without TLS, for one coroutine at a time.
class ByteStream {
  public:
    // Makes a stream without TLS.
    static std::unique_ptr<ByteStream> plain(boost::asio::ip::tcp::socket socket);
    virtual ~ByteStream() = default;

    // Sends all bytes.
    virtual boost::asio::awaitable<boost::system::error_code> write(std::string_view bytes) = 0;
    // Waits for bytes and returns how many came, at least one where there is no error.
    virtual boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer into,
                                                          boost::system::error_code& error) = 0;
};

// TlsStream is a stream over TLS. No end is negotiated: a stream waits for no close_notify of the server.
class TlsStream : public ByteStream {
  public:
    // Makes a stream of a connection that has just been made to `host`; the context outlives the stream.
    // Throws what current() throws.
    static std::unique_ptr<TlsStream> make(boost::asio::ip::tcp::socket socket, TlsContext& context,
                                           const std::string& host);

    // Does the handshake, before any other call.
    virtual boost::asio::awaitable<boost::system::error_code> shake_hands() = 0;
    // Says what an error of the handshake, or an alert of TLS after it, means.
    virtual TlsTrouble trouble(const boost::system::error_code& error) = 0;
};

}  // namespace job
}  // namespace ddprun
