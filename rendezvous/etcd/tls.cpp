#include "rendezvous/etcd/tls.hpp"

#include <fmt/core.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

// Boost.Asio's TLS is compiled here once, as rendezvous/base/asio.cpp does for the rest of it.
#include <boost/asio/ssl/impl/src.hpp>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/etcd/openssl.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;

namespace {

// --- the user's files

// A list of all the web's authorities has a quarter of it.
constexpr std::size_t kMaxPemBytes = 1024 * 1024;

// Systems keep here whom they trust: Debian, Fedora, openSUSE, Alpine.
constexpr const char* kSystemLists[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                        "/etc/ssl/cert.pem"};

[[noreturn]] void refuse_file(const NamedFile& file, const std::string& why) {
    fail(Errc::malformed, fmt::format("{} {}: {}", file.option, file.path, why));
}

std::string read_pem(const NamedFile& file) {
    auto bytes = read_small_file(file.path, kMaxPemBytes);
    if (bytes.has_value()) return std::move(*bytes);
    const bool is_odd = bytes.error() == boost::system::errc::invalid_argument;
    refuse_file(file,
                fmt::format("{}; name a file in PEM that this user can read",
                            is_odd ? "is no regular file" : "cannot be read: " + bytes.error().message()));
}

std::string openssl_words(const error_code& error) {
    const char* reason = ::ERR_reason_error_string(static_cast<unsigned long>(error.value()));
    return reason != nullptr ? reason : error.message();
}

void trust(ssl::context& context, const NamedFile& file) {
    error_code error;
    context.add_certificate_authority(asio::buffer(read_pem(file)), error);
    if (error)
        refuse_file(file, fmt::format("holds no certificate in PEM ({}); name the file of the authority that "
                                      "signed etcd's",
                                      openssl_words(error)));
}

void trust_as_this_machine(ssl::context& context) {
    std::string names;
    for (const char* path : kSystemLists) {
        names += (names.empty() ? "" : ", ") + std::string(path);
        struct stat status {};
        if (::stat(path, &status) == 0) return trust(context, {"the system's", path});
    }
    fail(Errc::malformed,
         fmt::format("--rdzv-conf protocol https: this machine has no list of whom to trust ({}); "
                     "cacert=FILE names the authority that signed etcd's certificate",
                     names));
}

void show(ssl::context& context, const TlsFiles& files) {
    error_code error;
    context.use_certificate_chain(asio::buffer(read_pem(files.cert)), error);
    if (error)
        refuse_file(files.cert, fmt::format("holds no certificate in PEM ({}); name this agent's own",
                                            openssl_words(error)));
    const NamedFile& file = files.key.is_given() ? files.key : files.cert;
    const std::string key = read_pem(file);
    // OpenSSL would ask the terminal.
    context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
    context.use_private_key(asio::buffer(key), ssl::context::pem, error);
    if (!error) return;
    const auto code = static_cast<unsigned long>(error.value());
    if (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
        refuse_file(file, fmt::format("is not the key of {} {}; name the two that were made together",
                                      files.cert.option, files.cert.path));
    if (key.find("PRIVATE KEY-----") == key.npos)
        refuse_file(file, files.key.is_given() ? "holds no private key in PEM; name that of the certificate"
                                               : "holds no private key; key=FILE names it");
    if (key.find("ENCRYPTED") != key.npos)
        refuse_file(file, "is encrypted, and nobody can be asked for its password; name one that is not");
    refuse_file(file, fmt::format("holds no private key that can be used ({}); name that of the certificate",
                                  openssl_words(error)));
}

std::unique_ptr<ssl::context> make_context(const TlsFiles& files) {
    open_openssl();
    // The machine's openssl.cnf is meant for its own services, and may forbid what etcd speaks.
    check(::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1, "OpenSSL does not start");
    auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->set_verify_mode(ssl::verify_peer);
    // A certificate that the user vouches for needs nobody above it, as with etcd's own client.
    ::X509_VERIFY_PARAM_set_flags(::SSL_CTX_get0_param(context->native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
    if (files.ca.is_given()) {
        trust(*context, files.ca);
    } else {
        trust_as_this_machine(*context);
    }
    if (files.cert.is_given()) show(*context, files);
    return context;
}

// --- what is said

// OpenSSL counts reasons of its own from far above the server's words, too.
constexpr int kLastAlert = 255;

int reason_of(const error_code& error) { return ERR_GET_REASON(static_cast<unsigned long>(error.value())); }

TlsTrouble bad_certificate(long verdict, const TlsFiles& files) {
    switch (verdict) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            return {"shows a certificate of another name; give --rdzv-endpoint one that stands in it", true};
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return {"shows a certificate that has expired; renew it, or set this machine's clock", true};
        case X509_V_ERR_CERT_NOT_YET_VALID:  // time mends it
            return {"shows a certificate that is not valid yet; set this machine's clock", false};
        default: break;
    }
    const char* why = ::X509_verify_cert_error_string(verdict);
    if (!files.ca.is_given())
        return {
            fmt::format(
                "shows a certificate that this machine does not trust ({}); --rdzv-conf cacert=FILE names "
                "the authority that signed it",
                why),
            true};
    return {fmt::format(
                "shows a certificate that {} {} does not vouch for ({}); name the file of the authority that "
                "signed it",
                files.ca.option, files.ca.path, why),
            true};
}

// Those of TLS's alerts that a server gives for what a client shows of itself, or that it shows nothing.
bool is_about_client(int alert) {
    switch (alert) {
        case SSL_AD_BAD_CERTIFICATE:
        case SSL_AD_UNSUPPORTED_CERTIFICATE:
        case SSL_AD_CERTIFICATE_REVOKED:
        case SSL_AD_CERTIFICATE_EXPIRED:
        case SSL_AD_CERTIFICATE_UNKNOWN:
        case SSL_AD_UNKNOWN_CA:
        case SSL_AD_ACCESS_DENIED:
        case SSL_AD_CERTIFICATE_REQUIRED: return true;
        default: return false;
    }
}

TlsTrouble told_by_server(const error_code& error, const TlsFiles& files) {
    const int alert = reason_of(error) - SSL_AD_REASON_OFFSET;
    if (!is_about_client(alert))
        return {fmt::format("breaks TLS off: {}", openssl_words(error)), alert != SSL_AD_INTERNAL_ERROR};
    if (!files.cert.is_given())
        return {fmt::format(
                    "wants this agent to show a certificate ({}); --rdzv-conf cert=FILE,key=FILE names it",
                    openssl_words(error)),
                true};
    return {fmt::format("does not accept {} {} ({}); name one that is signed by whom it trusts",
                        files.cert.option, files.cert.path, openssl_words(error)),
            true};
}

// --- the connection

// Any of Asio's streams as a ByteStream, or as what derives from that.
template <class Interface, class Stream>
class StreamAs : public Interface {
  public:
    template <class... Arguments>
    explicit StreamAs(Arguments&&... arguments) : stream_(std::forward<Arguments>(arguments)...) {}

    asio::awaitable<error_code> write(std::string_view bytes) override {
        error_code error;
        co_await asio::async_write(stream_, asio::buffer(bytes),
                                   asio::redirect_error(asio::use_awaitable, error));
        co_return error;
    }

    asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, error_code& error) override {
        co_return co_await stream_.async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
    }

  protected:
    Stream stream_;
};

class OpensslStream final : public StreamAs<TlsStream, ssl::stream<asio::ip::tcp::socket>> {
  public:
    OpensslStream(asio::ip::tcp::socket socket, TlsContext& context, const std::string& host)
        : StreamAs(std::move(socket), context.current()), files_(context.files()) {
        expect_host(stream_.native_handle(), host);
    }

    asio::awaitable<error_code> shake_hands() override {
        error_code error;
        co_await stream_.async_handshake(ssl::stream_base::client,
                                         asio::redirect_error(asio::use_awaitable, error));
        co_return error;
    }

    TlsTrouble trouble(const error_code& error) override {
        return handshake_trouble(error, ::SSL_get_verify_result(stream_.native_handle()), files_);
    }

  private:
    const TlsFiles& files_;
};

}  // namespace

TlsContext::TlsContext(TlsFiles files) : files_(std::move(files)) {}

TlsContext::~TlsContext() = default;

std::vector<TlsContext::Stamp> TlsContext::stamps() const {
    std::vector<Stamp> found;
    for (const NamedFile* file : {&files_.ca, &files_.cert, &files_.key}) {
        struct stat status {};
        if (file->is_given()) ::stat(file->path.c_str(), &status);
        found.push_back({static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
                         status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
    }
    return found;
}

ssl::context& TlsContext::current() {
    auto now = stamps();
    if (context_ && now == stamps_) return *context_;
    try {
        context_ = make_context(files_);
    } catch (const Error&) {
        if (!context_) throw;
    }
    stamps_ = std::move(now);
    return *context_;
}

std::optional<std::string> complaint_about(const TlsFiles& files) {
    try {
        TlsContext(files).current();
        return std::nullopt;
    } catch (const Error& error) {
        return error.what();
    }
}

void expect_host(ssl_st* connection, const std::string& host) {
    error_code is_name;
    // The zone of a link-local address is this machine's own word.
    const std::string address = host.substr(0, host.find('%'));
    asio::ip::make_address(address, is_name);
    ::X509_VERIFY_PARAM* expected = ::SSL_get0_param(connection);
    if (!is_name) {
        check(::X509_VERIFY_PARAM_set1_ip_asc(expected, address.c_str()) == 1,
              "an address is none to OpenSSL");
        return;
    }
    // A name with a dot at its end is complete; in certificates they always are, without one.
    const std::string name = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
    ::X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    check(::X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) == 1 &&
              SSL_set_tlsext_host_name(connection, name.c_str()) == 1,
          "a name is none to OpenSSL");
}

bool is_tls_word(const error_code& error) { return error.category() == asio::error::get_ssl_category(); }

TlsTrouble handshake_trouble(const error_code& error, long verdict, const TlsFiles& files) {
    if (verdict != X509_V_OK) return bad_certificate(verdict, files);
    if (!is_tls_word(error))
        return {fmt::format("ends the handshake of TLS ({}); if it speaks none, --rdzv-conf protocol=http",
                            error.message()),
                false};
    switch (const int reason = reason_of(error)) {
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_PACKET_LENGTH_TOO_LONG:
            return {"speaks no TLS; --rdzv-conf protocol=http asks it without", true};
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
            return {fmt::format("speaks no TLS of version 1.2 or newer ({})", openssl_words(error)), true};
        default:
            if (reason >= SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + kLastAlert)
                return told_by_server(error, files);
            return {fmt::format("cannot be asked over TLS: {}", openssl_words(error)), false};
    }
}

std::unique_ptr<ByteStream> ByteStream::plain(asio::ip::tcp::socket socket) {
    return std::make_unique<StreamAs<ByteStream, asio::ip::tcp::socket>>(std::move(socket));
}

std::unique_ptr<TlsStream> TlsStream::make(asio::ip::tcp::socket socket, TlsContext& context,
                                           const std::string& host) {
    return std::make_unique<OpensslStream>(std::move(socket), context, host);
}

}  // namespace job
}  // namespace ddprun
