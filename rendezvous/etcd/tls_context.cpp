#include "rendezvous/etcd/tls_context.hpp"

#include <fmt/core.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>

#include "rendezvous/etcd/tls_library.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

namespace {

// A list of all the web's authorities has a quarter of it.
constexpr std::size_t kMaxPemBytes = 1024 * 1024;

// Where systems keep whom they trust: Debian, Fedora, openSUSE, Alpine.
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

std::string openssl_words(const boost::system::error_code& error) {
    const char* reason = ::ERR_reason_error_string(static_cast<unsigned long>(error.value()));
    return reason != nullptr ? reason : error.message();
}

void trust(ssl::context& context, const NamedFile& file) {
    boost::system::error_code error;
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
    boost::system::error_code error;
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
    load_tls_library();
    // What this machine tells its own OpenSSL is meant for another version than the one in here.
    check(::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1, "OpenSSL does not start");
    auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->set_verify_mode(ssl::verify_peer);
    // As etcd's own client: what the user vouches for needs nobody above it.
    ::X509_VERIFY_PARAM_set_flags(::SSL_CTX_get0_param(context->native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
    if (files.ca.is_given()) {
        trust(*context, files.ca);
    } else {
        trust_as_this_machine(*context);
    }
    if (files.cert.is_given()) show(*context, files);
    return context;
}

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
    boost::system::error_code is_name;
    // The zone of a link-local address is this machine's own word.
    const std::string address = host.substr(0, host.find('%'));
    asio::ip::make_address(address, is_name);
    ::X509_VERIFY_PARAM* expected = ::SSL_get0_param(connection);
    if (!is_name) {
        check(::X509_VERIFY_PARAM_set1_ip_asc(expected, address.c_str()) == 1,
              "an address is none to OpenSSL");
        return;
    }
    // With a dot at its end a name is complete; in certificates they always are, without one.
    const std::string name = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
    ::X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    check(::X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) == 1 &&
              SSL_set_tlsext_host_name(connection, name.c_str()) == 1,
          "a name is none to OpenSSL");
}

}  // namespace ddprun::inline job
