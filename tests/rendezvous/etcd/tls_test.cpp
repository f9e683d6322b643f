#include "rendezvous/etcd/tls.hpp"
#include "rendezvous/etcd/openssl.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <memory>

#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Expected {
    std::string name, asked, address;  // asked: by the extension that tells a server which name is meant
};

Expected expected_of(const std::string& host) {
    const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(::SSL_CTX_new(::TLS_client_method()),
                                                                      &::SSL_CTX_free);
    const std::unique_ptr<SSL, decltype(&::SSL_free)> connection(::SSL_new(context.get()), &::SSL_free);
    expect_host(connection.get(), host);
    const auto text = [](const char* words) { return std::string(words != nullptr ? words : ""); };
    const std::unique_ptr<char, void (*)(char*)> address(
        ::X509_VERIFY_PARAM_get1_ip_asc(::SSL_get0_param(connection.get())),
        [](char* words) { OPENSSL_free(words); });
    return {text(::X509_VERIFY_PARAM_get0_host(::SSL_get0_param(connection.get()), 0)),
            text(::SSL_get_servername(connection.get(), TLSEXT_NAMETYPE_host_name)), text(address.get())};
}

const TlsFiles kNoFiles;
const TlsFiles kAllFiles{
    {"--rdzv-conf ca_cert", "/a"}, {"--rdzv-conf cert", "/b"}, {"--rdzv-conf key", "/c"}};

boost::system::error_code tls_error(int reason) {
    return {static_cast<int>(ERR_PACK(ERR_LIB_SSL, 0, reason)), boost::asio::error::get_ssl_category()};
}

TlsTrouble alerted(int alert, const TlsFiles& files) {
    return handshake_trouble(tls_error(SSL_AD_REASON_OFFSET + alert), X509_V_OK, files);
}

}  // namespace

// Before the other cases: what was opened once stays open.
TEST_CASE("tls: where there is no OpenSSL, a line names the package that has it") {
    for (const auto& [file, cause] : {std::pair{"libssl-of-nobody.so.3", "cannot open shared object file"},
                                      std::pair{"libc.so.6", "undefined symbol: BIO_ctrl"}}) {
        INFO(file);
        std::string said;
        try {
            open_openssl(file);
        } catch (const Error& error) {
            CHECK(error.code() == Errc::refused);
            said = error.what();
        }
        CHECK_THAT(said,
                   Catch::StartsWith(
                       "--rdzv-conf protocol https: TLS needs the system's OpenSSL 3 (Debian and Ubuntu: "
                       "package libssl3; Fedora and RHEL: openssl-libs): ") &&
                       Catch::Contains(file) && Catch::Contains(cause) &&
                       Catch::EndsWith("; protocol=http asks a listener without it"));
        CHECK(said.find('\n') == said.npos);
    }
}

TEST_CASE("tls: a certificate has to be for the name, or the address, that was asked for") {
    open_openssl();
    for (const auto& [host, name] :
         {std::pair{"etcd1", "etcd1"}, std::pair{"etcd1.example.org.", "etcd1.example.org"}}) {
        const Expected expected = expected_of(host);
        CHECK(expected.name == name);
        CHECK(expected.asked == name);
        CHECK(expected.address.empty());
    }
    for (const auto& [host, address] :
         {std::pair{"10.0.0.1", "10.0.0.1"}, std::pair{"fd00::1", "FD00:0:0:0:0:0:0:1"},
          std::pair{"fe80::1%lo", "FE80:0:0:0:0:0:0:1"}}) {
        const Expected expected = expected_of(host);
        CHECK(expected.address == address);
        CHECK((expected.name.empty() && expected.asked.empty()));
    }
}

TEST_CASE("tls: what is wrong with a server's certificate, and whether time mends it") {
    open_openssl();
    const auto verdict = [](long number, const TlsFiles& files = kNoFiles) {
        return handshake_trouble(tls_error(SSL_R_CERTIFICATE_VERIFY_FAILED), number, files);
    };
    CHECK(verdict(X509_V_ERR_HOSTNAME_MISMATCH).words ==
          "shows a certificate of another name; give --rdzv-endpoint one that stands in it");
    CHECK(verdict(X509_V_ERR_IP_ADDRESS_MISMATCH).words == verdict(X509_V_ERR_HOSTNAME_MISMATCH).words);
    CHECK(verdict(X509_V_ERR_CERT_HAS_EXPIRED).is_final);
    CHECK_THAT(verdict(X509_V_ERR_CERT_HAS_EXPIRED).words, Catch::Contains("has expired"));
    CHECK_FALSE(verdict(X509_V_ERR_CERT_NOT_YET_VALID).is_final);
    CHECK_THAT(verdict(X509_V_ERR_CERT_NOT_YET_VALID).words, Catch::Contains("this machine's clock"));
    for (const long number : {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                              X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_CERT_REVOKED}) {
        CHECK(verdict(number).is_final);
        const std::string why = ::X509_verify_cert_error_string(number);
        CHECK(verdict(number).words == "shows a certificate that this machine does not trust (" + why +
                                           "); --rdzv-conf cacert=FILE names the authority that signed it");
        CHECK(verdict(number, kAllFiles).words ==
              "shows a certificate that --rdzv-conf ca_cert /a does not vouch for (" + why +
                  "); name the file of the authority that signed it");
    }
}

TEST_CASE("tls: what a server says of what an agent shows, or of TLS itself") {
    open_openssl();
    for (const int alert : {SSL_AD_CERTIFICATE_REQUIRED, SSL_AD_BAD_CERTIFICATE, SSL_AD_UNKNOWN_CA,
                            SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_ACCESS_DENIED}) {
        INFO(alert);
        CHECK(alerted(alert, kNoFiles).is_final);
        CHECK_THAT(alerted(alert, kNoFiles).words,
                   Catch::StartsWith("wants this agent to show a certificate (") &&
                       Catch::EndsWith("; --rdzv-conf cert=FILE,key=FILE names it"));
        CHECK_THAT(alerted(alert, kAllFiles).words,
                   Catch::StartsWith("does not accept --rdzv-conf cert /b ("));
    }
    CHECK_THAT(alerted(SSL_AD_HANDSHAKE_FAILURE, kNoFiles).words, Catch::StartsWith("breaks TLS off: "));
    CHECK(alerted(SSL_AD_HANDSHAKE_FAILURE, kNoFiles).is_final);
    CHECK_FALSE(alerted(SSL_AD_INTERNAL_ERROR, kNoFiles).is_final);
}

TEST_CASE("tls: a server that speaks none, or an old one, or falls silent") {
    open_openssl();
    const auto trouble = [](const boost::system::error_code& error) {
        return handshake_trouble(error, X509_V_OK, kNoFiles);
    };
    CHECK(trouble(tls_error(SSL_R_WRONG_VERSION_NUMBER)).words ==
          "speaks no TLS; --rdzv-conf protocol=http asks it without");
    CHECK(trouble(tls_error(SSL_R_WRONG_VERSION_NUMBER)).is_final);
    for (const int reason : {SSL_R_UNSUPPORTED_PROTOCOL, SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION})
        CHECK_THAT(trouble(tls_error(reason)).words,
                   Catch::StartsWith("speaks no TLS of version 1.2 or newer ("));
    CHECK_FALSE(trouble(tls_error(ERR_R_MALLOC_FAILURE)).is_final);
    for (const boost::system::error_code& error :
         {boost::system::error_code(boost::asio::ssl::error::stream_truncated),
          boost::system::error_code(boost::asio::error::connection_reset)}) {
        CHECK_FALSE(is_tls_word(error));
        CHECK_FALSE(trouble(error).is_final);
        CHECK(trouble(error).words == "ends the handshake of TLS (" + error.message() +
                                          "); if it speaks none, --rdzv-conf protocol=http");
    }
    CHECK(is_tls_word(tls_error(SSL_R_WRONG_VERSION_NUMBER)));
}

}  // namespace ddprun
