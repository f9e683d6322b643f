#include "rendezvous/etcd/tls_trouble.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

#include "rendezvous/etcd/tls_library.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

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

TEST_CASE("tls: what is wrong with a server's certificate, and whether time mends it") {
    load_tls_library();
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
    load_tls_library();
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
    load_tls_library();
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
