#include "rendezvous/etcd/tls_context.hpp"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <memory>

#include "rendezvous/etcd/tls_library.hpp"
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

}  // namespace

TEST_CASE("tls: a certificate has to be for the name, or the address, that was asked for") {
    load_tls_library();
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

}  // namespace ddprun
