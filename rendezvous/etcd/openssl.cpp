#include "rendezvous/etcd/openssl.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstring>
#include <string>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"

// The functions of OpenSSL that are called: by the sources here, by Asio's, and by the tests. Each is a jump
// to where its place in openssl_calls says, which open_openssl() fills in. openssl_names has their names in
// the same order, each with a zero; an empty one ends them. To dlsym each of them by hand would need all
// their declarations a second time.
asm(".macro openssl_call name\n"
    ".pushsection .bss.openssl_calls, \"aw\", %nobits\n"
    ".Lplace_\\name: .skip 8\n"
    ".popsection\n"
    ".pushsection .rodata.openssl_names, \"a\", %progbits\n"
    ".asciz \"\\name\"\n"
    ".popsection\n"
    ".pushsection .text.openssl_jumps, \"ax\", %progbits\n"
    ".globl \\name\n"
    ".hidden \\name\n"
    ".type \\name, %function\n"
    "\\name:\n"
#if defined(__x86_64__)
    "jmp *.Lplace_\\name(%rip)\n"
#elif defined(__aarch64__)
    "adrp x16, .Lplace_\\name\n"
    "ldr x16, [x16, #:lo12:.Lplace_\\name]\n"
    "br x16\n"
#else
#error "there is no jump into OpenSSL for this processor"
#endif
    ".size \\name, . - \\name\n"
    ".popsection\n"
    ".endm\n"
    ".pushsection .bss.openssl_calls, \"aw\", %nobits\n"
    ".p2align 3\n"
    ".globl openssl_calls\n"
    ".hidden openssl_calls\n"
    "openssl_calls:\n"
    ".popsection\n"
    ".pushsection .rodata.openssl_names, \"a\", %progbits\n"
    ".globl openssl_names\n"
    ".hidden openssl_names\n"
    "openssl_names:\n"
    ".popsection\n"
    ".irp call, "
    "BIO_ctrl, BIO_ctrl_pending, BIO_free, BIO_new_bio_pair, BIO_new_file, BIO_new_mem_buf, BIO_read, "
    "BIO_write, CRYPTO_free, ERR_clear_error, ERR_get_error, ERR_lib_error_string, ERR_peek_error, "
    "ERR_peek_last_error, ERR_reason_error_string, EVP_PKEY_free, EVP_PKEY_is_a, GENERAL_NAMES_free, "
    "OPENSSL_init_ssl, OPENSSL_sk_num, OPENSSL_sk_value, PEM_read_bio_Parameters, "
    "PEM_read_bio_PrivateKey, PEM_read_bio_X509, PEM_read_bio_X509_AUX, SSL_CTX_clear_options, "
    "SSL_CTX_ctrl, SSL_CTX_free, SSL_CTX_get0_param, SSL_CTX_get_cert_store, "
    "SSL_CTX_get_default_passwd_cb, SSL_CTX_get_default_passwd_cb_userdata, SSL_CTX_get_ex_data, "
    "SSL_CTX_get_verify_callback, SSL_CTX_get_verify_mode, SSL_CTX_load_verify_locations, SSL_CTX_new, "
    "SSL_CTX_set0_tmp_dh_pkey, SSL_CTX_set_default_passwd_cb, SSL_CTX_set_default_passwd_cb_userdata, "
    "SSL_CTX_set_default_verify_paths, SSL_CTX_set_ex_data, SSL_CTX_set_options, SSL_CTX_set_verify, "
    "SSL_CTX_set_verify_depth, SSL_CTX_use_PrivateKey, SSL_CTX_use_PrivateKey_file, "
    "SSL_CTX_use_certificate, SSL_CTX_use_certificate_ASN1, SSL_CTX_use_certificate_chain_file, "
    "SSL_CTX_use_certificate_file, SSL_accept, SSL_connect, SSL_ctrl, SSL_free, SSL_get0_param, "
    "SSL_get_SSL_CTX, SSL_get_error, SSL_get_ex_data, SSL_get_ex_data_X509_STORE_CTX_idx, "
    "SSL_get_servername, SSL_get_shutdown, SSL_get_verify_callback, SSL_get_verify_mode, "
    "SSL_get_verify_result, SSL_new, SSL_read, SSL_set_bio, SSL_set_ex_data, SSL_set_verify, "
    "SSL_set_verify_depth, SSL_shutdown, SSL_write, TLS_client_method, TLS_method, TLS_server_method, "
    "X509_NAME_ENTRY_get_data, X509_NAME_get_entry, X509_NAME_get_index_by_NID, "
    "X509_STORE_CTX_get_current_cert, X509_STORE_CTX_get_error_depth, X509_STORE_CTX_get_ex_data, "
    "X509_STORE_add_cert, X509_VERIFY_PARAM_get0_host, X509_VERIFY_PARAM_get1_ip_asc, "
    "X509_VERIFY_PARAM_set1_host, X509_VERIFY_PARAM_set1_ip_asc, X509_VERIFY_PARAM_set_flags, "
    "X509_VERIFY_PARAM_set_hostflags, X509_check_host, X509_check_ip_asc, X509_free, X509_get_ext_d2i, "
    "X509_get_subject_name, X509_verify_cert_error_string, d2i_PrivateKey_bio\n"
    "openssl_call \\call\n"
    ".endr\n"
    ".pushsection .rodata.openssl_names, \"a\", %progbits\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const char openssl_names[];
extern void* openssl_calls[];
}

namespace ddprun {
inline namespace job {
namespace {

[[noreturn]] void refuse_tls(const std::string& why) {
    fail(
        Errc::refused,
        fmt::format(
            "--rdzv-conf protocol https: TLS needs the system's OpenSSL 3 (Debian and Ubuntu: package libssl3; "
            "Fedora and RHEL: openssl-libs): {}; protocol=http asks a listener without it",
            why));
}

// Libssl brings libcrypto along, whose functions are found by way of it.
void* opened_openssl(const char* file) {
    void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) refuse_tls(::dlerror());
    void** place = openssl_calls;
    for (const char* name = openssl_names; *name != '\0'; name += std::strlen(name) + 1) {
        *place = ::dlsym(library, name);
        if (*place++ == nullptr) refuse_tls(::dlerror());
    }
    return library;
}

}  // namespace

void open_openssl(const char* file) {
    static const void* const library = opened_openssl(file);
    check(library != nullptr, "OpenSSL is open");
}

}  // namespace job
}  // namespace ddprun
