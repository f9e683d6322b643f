#include "rendezvous/etcd/tls_trouble.hpp"

#include <fmt/core.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

namespace ddprun::inline job {

namespace asio = boost::asio;

namespace {

// OpenSSL counts reasons of its own from far above the server's words, too.
constexpr int kLastAlert = 255;

int reason_of(const boost::system::error_code& error) {
    return ERR_GET_REASON(static_cast<unsigned long>(error.value()));
}

std::string words_of(const boost::system::error_code& error) {
    const char* words = ::ERR_reason_error_string(static_cast<unsigned long>(error.value()));
    return words != nullptr ? words : error.message();
}

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

TlsTrouble told_by_server(const boost::system::error_code& error, const TlsFiles& files) {
    const int alert = reason_of(error) - SSL_AD_REASON_OFFSET;
    if (!is_about_client(alert))
        return {fmt::format("breaks TLS off: {}", words_of(error)), alert != SSL_AD_INTERNAL_ERROR};
    if (!files.cert.is_given())
        return {fmt::format(
                    "wants this agent to show a certificate ({}); --rdzv-conf cert=FILE,key=FILE names it",
                    words_of(error)),
                true};
    return {fmt::format("does not accept {} {} ({}); name one that is signed by whom it trusts",
                        files.cert.option, files.cert.path, words_of(error)),
            true};
}

}  // namespace

bool is_tls_word(const boost::system::error_code& error) {
    return error.category() == asio::error::get_ssl_category();
}

TlsTrouble handshake_trouble(const boost::system::error_code& error, long verdict, const TlsFiles& files) {
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
            return {fmt::format("speaks no TLS of version 1.2 or newer ({})", words_of(error)), true};
        default:
            if (reason >= SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + kLastAlert)
                return told_by_server(error, files);
            return {fmt::format("cannot be asked over TLS: {}", words_of(error)), false};
    }
}

}  // namespace ddprun::inline job
