// What to say of a connection over TLS that came to nothing; no input or output. OpenSSL is loaded by then.
#pragma once

#include <boost/system/error_code.hpp>
#include <string>

#include "rendezvous/etcd/tls_files.hpp"

namespace ddprun::inline job {

struct TlsTrouble {
    std::string words;      // to stand behind the server's name, with a remedy where there is one
    bool is_final = false;  // to try again is in vain
};

// `verdict`: OpenSSL's on the server's certificate, X509_V_OK if that is not at fault.
TlsTrouble handshake_trouble(const boost::system::error_code& error, long verdict, const TlsFiles& files);

// Whether this is a word of TLS itself. One may come after the handshake, where the other side wants another
// certificate; handshake_trouble says what it means.
bool is_tls_word(const boost::system::error_code& error);

}  // namespace ddprun::inline job
