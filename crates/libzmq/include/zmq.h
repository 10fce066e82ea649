/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zmq.h: ZeroMQ for C and C++, as Tidewire's libzmq.so.5 offers it.
 *
 * Names, numbers and signatures are those that programs written for libzmq 4.3 know, so that their
 * sources compile and their binaries run unchanged. Unless a comment says otherwise a function
 * returns 0, or -1 with the reason in errno; see zmq_errno().
 */

#ifndef TIDEWIRE_ZMQ_H
#define TIDEWIRE_ZMQ_H
/* Some programs ask whether the header has been read already by its usual guard. */
#define __ZMQ_H_INCLUDED__

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#define ZMQ_DEFINED_STDINT 1

#if defined ZMQ_NO_EXPORT
#define ZMQ_EXPORT
#else
#define ZMQ_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------ */

/* The interface's version, not Tidewire's own. */
#define ZMQ_VERSION_MAJOR 4
#define ZMQ_VERSION_MINOR 3
#define ZMQ_VERSION_PATCH 6
#define ZMQ_MAKE_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define ZMQ_VERSION ZMQ_MAKE_VERSION(ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH)

/* The version of the library at run time. */
ZMQ_EXPORT void zmq_version(int *major, int *minor, int *patch);

/* ---- Errors ------------------------------------------------------------------------------- */

/* Error numbers of ZeroMQ's own lie beyond those of every system. */
#define ZMQ_HAUSNUMERO 156384712
/* The socket's pattern does not allow the call now. */
#define EFSM (ZMQ_HAUSNUMERO + 51)
/* The transport does not go with the type of the socket. */
#define ENOCOMPATPROTO (ZMQ_HAUSNUMERO + 52)
/* The context is being terminated. */
#define ETERM (ZMQ_HAUSNUMERO + 53)
/* There is no thread for the work. */
#define EMTHREAD (ZMQ_HAUSNUMERO + 54)

/* Systems may lack these; every system that Tidewire runs on has them. */
#ifndef ENOTSUP
#define ENOTSUP (ZMQ_HAUSNUMERO + 1)
#endif
#ifndef EPROTONOSUPPORT
#define EPROTONOSUPPORT (ZMQ_HAUSNUMERO + 2)
#endif
#ifndef ENOBUFS
#define ENOBUFS (ZMQ_HAUSNUMERO + 3)
#endif
#ifndef ENETDOWN
#define ENETDOWN (ZMQ_HAUSNUMERO + 4)
#endif
#ifndef EADDRINUSE
#define EADDRINUSE (ZMQ_HAUSNUMERO + 5)
#endif
#ifndef EADDRNOTAVAIL
#define EADDRNOTAVAIL (ZMQ_HAUSNUMERO + 6)
#endif
#ifndef ECONNREFUSED
#define ECONNREFUSED (ZMQ_HAUSNUMERO + 7)
#endif
#ifndef EINPROGRESS
#define EINPROGRESS (ZMQ_HAUSNUMERO + 8)
#endif
#ifndef ENOTSOCK
#define ENOTSOCK (ZMQ_HAUSNUMERO + 9)
#endif
#ifndef EMSGSIZE
#define EMSGSIZE (ZMQ_HAUSNUMERO + 10)
#endif
#ifndef EAFNOSUPPORT
#define EAFNOSUPPORT (ZMQ_HAUSNUMERO + 11)
#endif
#ifndef ENETUNREACH
#define ENETUNREACH (ZMQ_HAUSNUMERO + 12)
#endif
#ifndef ECONNABORTED
#define ECONNABORTED (ZMQ_HAUSNUMERO + 13)
#endif
#ifndef ECONNRESET
#define ECONNRESET (ZMQ_HAUSNUMERO + 14)
#endif
#ifndef ENOTCONN
#define ENOTCONN (ZMQ_HAUSNUMERO + 15)
#endif
#ifndef ETIMEDOUT
#define ETIMEDOUT (ZMQ_HAUSNUMERO + 16)
#endif
#ifndef EHOSTUNREACH
#define EHOSTUNREACH (ZMQ_HAUSNUMERO + 17)
#endif
#ifndef ENETRESET
#define ENETRESET (ZMQ_HAUSNUMERO + 18)
#endif

/* The calling thread's errno. */
ZMQ_EXPORT int zmq_errno(void);
/* An error number in words; the text is never freed. */
ZMQ_EXPORT const char *zmq_strerror(int errnum);

/* ---- Context ------------------------------------------------------------------------------ */

/* Options of a context. */
#define ZMQ_IO_THREADS 1
#define ZMQ_MAX_SOCKETS 2
#define ZMQ_SOCKET_LIMIT 3                          /* (get) the greatest value of ZMQ_MAX_SOCKETS */
#define ZMQ_THREAD_PRIORITY 3                       /* (set) */
#define ZMQ_THREAD_SCHED_POLICY 4
#define ZMQ_MAX_MSGSZ 5
#define ZMQ_MSG_T_SIZE 6                            /* (get) sizeof (zmq_msg_t) */
#define ZMQ_THREAD_AFFINITY_CPU_ADD 7
#define ZMQ_THREAD_AFFINITY_CPU_REMOVE 8
#define ZMQ_THREAD_NAME_PREFIX 9

/* What a new context begins with. */
#define ZMQ_IO_THREADS_DFLT 1
#define ZMQ_MAX_SOCKETS_DFLT 1023
#define ZMQ_THREAD_PRIORITY_DFLT -1
#define ZMQ_THREAD_SCHED_POLICY_DFLT -1

ZMQ_EXPORT void *zmq_ctx_new(void);
/* Blocks until every socket of the context is closed and its messages have left or lingered. */
ZMQ_EXPORT int zmq_ctx_term(void *context);
/* Makes every call on the context's sockets fail with ETERM, except zmq_close(). */
ZMQ_EXPORT int zmq_ctx_shutdown(void *context);
ZMQ_EXPORT int zmq_ctx_set(void *context, int option, int value);
ZMQ_EXPORT int zmq_ctx_get(void *context, int option);

/* Older names. */
ZMQ_EXPORT void *zmq_init(int io_threads);
ZMQ_EXPORT int zmq_term(void *context);
ZMQ_EXPORT int zmq_ctx_destroy(void *context);

/* ---- Messages ----------------------------------------------------------------------------- */

/* One frame. Its inside is the library's; only zmq_msg_*() may touch it, and it must not be moved
   or copied in any other way than by them. */
typedef struct zmq_msg_t
{
    unsigned char _[64] __attribute__((aligned(sizeof(void *))));
} zmq_msg_t;

/* Gives memory back that was handed over with zmq_msg_init_data(). Any thread may call it. */
typedef void(zmq_free_fn)(void *data, void *hint);

/* Properties for zmq_msg_get(). */
#define ZMQ_MORE 1                                  /* 1 if another frame of the same message follows */
#define ZMQ_SHARED 3                                /* 1 if other messages may share the body */
#define ZMQ_SRCFD 2                                 /* the descriptor it came through (deprecated) */

ZMQ_EXPORT int zmq_msg_init(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_init_size(zmq_msg_t *msg, size_t size);
ZMQ_EXPORT int
zmq_msg_init_data(zmq_msg_t *msg, void *data, size_t size, zmq_free_fn *free_fn, void *hint);
/* Returns the number of bytes; the message is empty afterwards. */
ZMQ_EXPORT int zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
/* Returns the number of bytes; what the message held before is released. */
ZMQ_EXPORT int zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags);
ZMQ_EXPORT int zmq_msg_close(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_move(zmq_msg_t *dest, zmq_msg_t *src);
/* A large body is shared afterwards, not copied: neither may be written to. */
ZMQ_EXPORT int zmq_msg_copy(zmq_msg_t *dest, zmq_msg_t *src);
ZMQ_EXPORT void *zmq_msg_data(zmq_msg_t *msg);
ZMQ_EXPORT size_t zmq_msg_size(const zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_more(const zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_get(const zmq_msg_t *msg, int property);
/* No property can be set: always EINVAL. */
ZMQ_EXPORT int zmq_msg_set(zmq_msg_t *msg, int property, int value);
/* What the peer said of itself, such as "Socket-Type"; valid as long as the message is. */
ZMQ_EXPORT const char *zmq_msg_gets(const zmq_msg_t *msg, const char *property);

/* ---- Sockets ------------------------------------------------------------------------------ */

/* Types. */
#define ZMQ_PAIR 0
#define ZMQ_PUB 1
#define ZMQ_SUB 2
#define ZMQ_REQ 3
#define ZMQ_REP 4
#define ZMQ_DEALER 5
#define ZMQ_ROUTER 6
#define ZMQ_PULL 7
#define ZMQ_PUSH 8
#define ZMQ_XPUB 9
#define ZMQ_XSUB 10
#define ZMQ_STREAM 11
#define ZMQ_XREQ ZMQ_DEALER
#define ZMQ_XREP ZMQ_ROUTER

/* Flags of sends and receives. */
#define ZMQ_DONTWAIT 1
#define ZMQ_SNDMORE 2
#define ZMQ_NOBLOCK ZMQ_DONTWAIT

/* Options: identity, routing and patterns. */
#define ZMQ_ROUTING_ID 5                            /* bytes, at most 255 */
#define ZMQ_CONNECT_ROUTING_ID 61                   /* bytes, for the next connect */
#define ZMQ_SUBSCRIBE 6                             /* bytes */
#define ZMQ_UNSUBSCRIBE 7                           /* bytes */
#define ZMQ_PROBE_ROUTER 51
#define ZMQ_REQ_CORRELATE 52
#define ZMQ_REQ_RELAXED 53
#define ZMQ_ROUTER_MANDATORY 33
#define ZMQ_ROUTER_HANDOVER 56
#define ZMQ_ROUTER_RAW 41
#define ZMQ_XPUB_VERBOSE 40
#define ZMQ_XPUB_VERBOSER 78
#define ZMQ_XPUB_NODROP 69
#define ZMQ_XPUB_MANUAL 71
#define ZMQ_XPUB_WELCOME_MSG 72                     /* bytes */
#define ZMQ_INVERT_MATCHING 74
#define ZMQ_CONFLATE 54
#define ZMQ_STREAM_NOTIFY 73

/* Options: state. */
#define ZMQ_RCVMORE 13                              /* (get) */
#define ZMQ_FD 14                                   /* (get) readable when ZMQ_EVENTS may have changed */
#define ZMQ_EVENTS 15                               /* (get) ZMQ_POLLIN, ZMQ_POLLOUT */
#define ZMQ_TYPE 16                                 /* (get) */
#define ZMQ_LAST_ENDPOINT 32                        /* (get) string */
#define ZMQ_MECHANISM 43                            /* (get) */
#define ZMQ_THREAD_SAFE 81                          /* (get) */

/* Options: limits and times, in messages, bytes and milliseconds. */
#define ZMQ_SNDHWM 23
#define ZMQ_RCVHWM 24
#define ZMQ_SNDBUF 11
#define ZMQ_RCVBUF 12
#define ZMQ_MAXMSGSIZE 22                           /* int64_t */
#define ZMQ_SNDTIMEO 28
#define ZMQ_RCVTIMEO 27
#define ZMQ_LINGER 17
#define ZMQ_BLOCKY 70
#define ZMQ_HANDSHAKE_IVL 66
#define ZMQ_HEARTBEAT_IVL 75
#define ZMQ_HEARTBEAT_TTL 76
#define ZMQ_HEARTBEAT_TIMEOUT 77

/* Options: connections. */
#define ZMQ_AFFINITY 4                              /* uint64_t */
#define ZMQ_BACKLOG 19
#define ZMQ_IMMEDIATE 39
#define ZMQ_RECONNECT_IVL 18
#define ZMQ_RECONNECT_IVL_MAX 21
#define ZMQ_CONNECT_TIMEOUT 79
#define ZMQ_IPV6 42
#define ZMQ_TCP_KEEPALIVE 34
#define ZMQ_TCP_KEEPALIVE_CNT 35
#define ZMQ_TCP_KEEPALIVE_IDLE 36
#define ZMQ_TCP_KEEPALIVE_INTVL 37
#define ZMQ_TCP_MAXRT 80
#define ZMQ_TOS 57
#define ZMQ_BINDTODEVICE 92                         /* string */
#define ZMQ_SOCKS_PROXY 68                          /* string */
#define ZMQ_USE_FD 89

/* Options: security. */
#define ZMQ_ZAP_DOMAIN 55                           /* string */
#define ZMQ_PLAIN_SERVER 44
#define ZMQ_PLAIN_USERNAME 45                       /* string */
#define ZMQ_PLAIN_PASSWORD 46                       /* string */
#define ZMQ_CURVE_SERVER 47
#define ZMQ_CURVE_PUBLICKEY 48                      /* 32 bytes, or 40 characters of Z85 */
#define ZMQ_CURVE_SECRETKEY 49                      /* 32 bytes, or 40 characters of Z85 */
#define ZMQ_CURVE_SERVERKEY 50                      /* 32 bytes, or 40 characters of Z85 */
#define ZMQ_GSSAPI_SERVER 62
#define ZMQ_GSSAPI_PRINCIPAL 63
#define ZMQ_GSSAPI_SERVICE_PRINCIPAL 64
#define ZMQ_GSSAPI_PLAINTEXT 65
#define ZMQ_GSSAPI_PRINCIPAL_NAMETYPE 90
#define ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE 91

/* Options: transports that are not built in; their values are kept and do nothing. */
#define ZMQ_RATE 8
#define ZMQ_RECOVERY_IVL 9
#define ZMQ_MULTICAST_HOPS 25
#define ZMQ_MULTICAST_MAXTPDU 84
#define ZMQ_VMCI_BUFFER_SIZE 85                     /* uint64_t */
#define ZMQ_VMCI_BUFFER_MIN_SIZE 86                 /* uint64_t */
#define ZMQ_VMCI_BUFFER_MAX_SIZE 87                 /* uint64_t */
#define ZMQ_VMCI_CONNECT_TIMEOUT 88

/* Options: deprecated, and older names. */
#define ZMQ_IPV4ONLY 31
#define ZMQ_TCP_ACCEPT_FILTER 38
#define ZMQ_IPC_FILTER_PID 58
#define ZMQ_IPC_FILTER_UID 59
#define ZMQ_IPC_FILTER_GID 60
#define ZMQ_IDENTITY ZMQ_ROUTING_ID
#define ZMQ_CONNECT_RID ZMQ_CONNECT_ROUTING_ID
#define ZMQ_DELAY_ATTACH_ON_CONNECT ZMQ_IMMEDIATE
#define ZMQ_FAIL_UNROUTABLE ZMQ_ROUTER_MANDATORY
#define ZMQ_ROUTER_BEHAVIOR ZMQ_ROUTER_MANDATORY

/* Values of ZMQ_MECHANISM. */
#define ZMQ_NULL 0
#define ZMQ_PLAIN 1
#define ZMQ_CURVE 2
#define ZMQ_GSSAPI 3
/* Values of ZMQ_GSSAPI_*_NAMETYPE. */
#define ZMQ_GSSAPI_NT_HOSTBASED 0
#define ZMQ_GSSAPI_NT_USER_NAME 1
#define ZMQ_GSSAPI_NT_KRB5_PRINCIPAL 2
/* The longest name of a group, in bytes. */
#define ZMQ_GROUP_MAX_LENGTH 255

ZMQ_EXPORT void *zmq_socket(void *context, int type);
ZMQ_EXPORT int zmq_close(void *socket);
ZMQ_EXPORT int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
/* `size` holds the room at `value`, and afterwards what was written. */
ZMQ_EXPORT int zmq_getsockopt(void *socket, int option, void *value, size_t *size);
ZMQ_EXPORT int zmq_bind(void *socket, const char *endpoint);
ZMQ_EXPORT int zmq_connect(void *socket, const char *endpoint);
ZMQ_EXPORT int zmq_unbind(void *socket, const char *endpoint);
ZMQ_EXPORT int zmq_disconnect(void *socket, const char *endpoint);
/* Sends and receives return the number of bytes. What does not fit into the buffer of zmq_recv() is
   cut off; the number returned is that of the whole frame. */
ZMQ_EXPORT int zmq_send(void *socket, const void *buffer, size_t size, int flags);
/* As zmq_send(), with a buffer that is never changed and never freed. */
ZMQ_EXPORT int zmq_send_const(void *socket, const void *buffer, size_t size, int flags);
ZMQ_EXPORT int zmq_recv(void *socket, void *buffer, size_t size, int flags);

/* Older names. */
ZMQ_EXPORT int zmq_sendmsg(void *socket, zmq_msg_t *msg, int flags);
ZMQ_EXPORT int zmq_recvmsg(void *socket, zmq_msg_t *msg, int flags);
/* Several frames at once. The buffers that zmq_recviov() fills in are to be freed with free(). */
struct iovec;
ZMQ_EXPORT int zmq_sendiov(void *socket, struct iovec *parts, size_t count, int flags);
ZMQ_EXPORT int zmq_recviov(void *socket, struct iovec *parts, size_t *count, int flags);

/* ---- Monitoring --------------------------------------------------------------------------- */

/* What happens to connections, as events. */
#define ZMQ_EVENT_CONNECTED 0x0001
#define ZMQ_EVENT_CONNECT_DELAYED 0x0002
#define ZMQ_EVENT_CONNECT_RETRIED 0x0004            /* value: milliseconds until then */
#define ZMQ_EVENT_LISTENING 0x0008
#define ZMQ_EVENT_BIND_FAILED 0x0010                /* value: errno */
#define ZMQ_EVENT_ACCEPTED 0x0020
#define ZMQ_EVENT_ACCEPT_FAILED 0x0040              /* value: errno */
#define ZMQ_EVENT_CLOSED 0x0080
#define ZMQ_EVENT_CLOSE_FAILED 0x0100               /* value: errno */
#define ZMQ_EVENT_DISCONNECTED 0x0200
#define ZMQ_EVENT_MONITOR_STOPPED 0x0400
#define ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL 0x0800 /* value: errno */
#define ZMQ_EVENT_HANDSHAKE_SUCCEEDED 0x1000
#define ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL 0x2000  /* value: ZMQ_PROTOCOL_ERROR_* */
#define ZMQ_EVENT_HANDSHAKE_FAILED_AUTH 0x4000      /* value: status code of ZAP */
#define ZMQ_EVENT_ALL 0xFFFF

/* How a handshake broke the protocol. */
#define ZMQ_PROTOCOL_ERROR_ZMTP_UNSPECIFIED 0x10000000
#define ZMQ_PROTOCOL_ERROR_ZMTP_UNEXPECTED_COMMAND 0x10000001
#define ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_SEQUENCE 0x10000002
#define ZMQ_PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE 0x10000003
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_UNSPECIFIED 0x10000011
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_MESSAGE 0x10000012
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO 0x10000013
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_INITIATE 0x10000014
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_ERROR 0x10000015
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_READY 0x10000016
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_WELCOME 0x10000017
#define ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_METADATA 0x10000018
/* These two may come of a peer that is only configured otherwise. */
#define ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC 0x11000001
#define ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH 0x11000002
#define ZMQ_PROTOCOL_ERROR_ZAP_UNSPECIFIED 0x20000000
#define ZMQ_PROTOCOL_ERROR_ZAP_MALFORMED_REPLY 0x20000001
#define ZMQ_PROTOCOL_ERROR_ZAP_BAD_REQUEST_ID 0x20000002
#define ZMQ_PROTOCOL_ERROR_ZAP_BAD_VERSION 0x20000003
#define ZMQ_PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE 0x20000004
#define ZMQ_PROTOCOL_ERROR_ZAP_INVALID_METADATA 0x20000005
#define ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED 0x30000000

/* Binds a PAIR to `endpoint`, which must be inproc, and sends events through it: a frame of event
   (uint16_t) and value (int32_t), then a frame with the address. NULL ends monitoring. */
ZMQ_EXPORT int zmq_socket_monitor(void *socket, const char *endpoint, int events);

/* ---- Waiting for several sockets ---------------------------------------------------------- */

typedef int zmq_fd_t;

#define ZMQ_POLLIN 1
#define ZMQ_POLLOUT 2
#define ZMQ_POLLERR 4                               /* descriptors alone */
#define ZMQ_POLLPRI 8                               /* descriptors alone */

/* A socket, or a descriptor where `socket` is NULL. */
typedef struct zmq_pollitem_t
{
    void *socket;
    zmq_fd_t fd;
    short events;
    short revents;
} zmq_pollitem_t;

#define ZMQ_POLLITEMS_DFLT 16

/* Returns how many items are ready; `timeout` is in milliseconds, -1 waits for ever. */
ZMQ_EXPORT int zmq_poll(zmq_pollitem_t *items, int count, long timeout);

/* ---- Proxies ------------------------------------------------------------------------------ */

/* Both return only when the context ends, and the second on TERMINATE from `control`. */
ZMQ_EXPORT int zmq_proxy(void *frontend, void *backend, void *capture);
ZMQ_EXPORT int zmq_proxy_steerable(void *frontend, void *backend, void *capture, void *control);

/* Older name; the type says nothing. */
#define ZMQ_STREAMER 1
#define ZMQ_FORWARDER 2
#define ZMQ_QUEUE 3
ZMQ_EXPORT int zmq_device(int type, void *frontend, void *backend);

/* ---- What is built in --------------------------------------------------------------------- */

#define ZMQ_HAS_CAPABILITIES 1
/* 1 for "ipc", "curve", "WS" and "WSS", and for "shm" and "tidewire", which no other library
   answers so; otherwise 0. */
ZMQ_EXPORT int zmq_has(const char *capability);

/* ---- Keys --------------------------------------------------------------------------------- */

/* `size` is a multiple of 4; `dest` has room for size * 5 / 4 + 1 characters. NULL on an error. */
ZMQ_EXPORT char *zmq_z85_encode(char *dest, const uint8_t *data, size_t size);
/* The length of `string` is a multiple of 5; `dest` has room for length * 4 / 5 bytes. */
ZMQ_EXPORT uint8_t *zmq_z85_decode(uint8_t *dest, const char *string);
/* Keys are 40 characters and a terminating 0. */
ZMQ_EXPORT int zmq_curve_keypair(char *z85_public_key, char *z85_secret_key);
ZMQ_EXPORT int zmq_curve_public(char *z85_public_key, const char *z85_secret_key);

/* ---- Counters that threads share ---------------------------------------------------------- */

ZMQ_EXPORT void *zmq_atomic_counter_new(void);
ZMQ_EXPORT void zmq_atomic_counter_set(void *counter, int value);
/* Returns the value before. */
ZMQ_EXPORT int zmq_atomic_counter_inc(void *counter);
/* Returns 0 when the counter has come to 0, otherwise 1. */
ZMQ_EXPORT int zmq_atomic_counter_dec(void *counter);
ZMQ_EXPORT int zmq_atomic_counter_value(void *counter);
ZMQ_EXPORT void zmq_atomic_counter_destroy(void **counter);

/* ---- Timers ------------------------------------------------------------------------------- */

#define ZMQ_HAVE_TIMERS

typedef void(zmq_timer_fn)(int timer_id, void *arg);

ZMQ_EXPORT void *zmq_timers_new(void);
ZMQ_EXPORT int zmq_timers_destroy(void **timers);
/* Returns the timer's number; it fires every `interval` milliseconds from zmq_timers_execute(). */
ZMQ_EXPORT int zmq_timers_add(void *timers, size_t interval, zmq_timer_fn handler, void *arg);
ZMQ_EXPORT int zmq_timers_cancel(void *timers, int timer_id);
ZMQ_EXPORT int zmq_timers_set_interval(void *timers, int timer_id, size_t interval);
ZMQ_EXPORT int zmq_timers_reset(void *timers, int timer_id);
/* Milliseconds until the next timer, -1 if there is none. */
ZMQ_EXPORT long zmq_timers_timeout(void *timers);
ZMQ_EXPORT int zmq_timers_execute(void *timers);

/* ---- For test programs -------------------------------------------------------------------- */

ZMQ_EXPORT void *zmq_stopwatch_start(void);
/* Microseconds since the start. */
ZMQ_EXPORT unsigned long zmq_stopwatch_intermediate(void *watch);
ZMQ_EXPORT unsigned long zmq_stopwatch_stop(void *watch);
ZMQ_EXPORT void zmq_sleep(int seconds);
typedef void(zmq_thread_fn)(void *);
ZMQ_EXPORT void *zmq_threadstart(zmq_thread_fn *function, void *arg);
/* Waits until the thread ends. */
ZMQ_EXPORT void zmq_threadclose(void *thread);

/* ---- Drafts: may change until libzmq declares them stable --------------------------------- */

#ifdef ZMQ_BUILD_DRAFT_API

ZMQ_EXPORT int zmq_ctx_set_ext(void *context, int option, const void *value, size_t size);
ZMQ_EXPORT int zmq_ctx_get_ext(void *context, int option, void *value, size_t *size);

/* Types of sockets; their messages are of one frame, of a ZMQ_DGRAM of two: an address, a body. */
#define ZMQ_SERVER 12
#define ZMQ_CLIENT 13
#define ZMQ_RADIO 14
#define ZMQ_DISH 15
#define ZMQ_GATHER 16
#define ZMQ_SCATTER 17
#define ZMQ_DGRAM 18
#define ZMQ_PEER 19
#define ZMQ_CHANNEL 20

/* ZMQ_DISH: what is sent to a group is received, or no more. */
ZMQ_EXPORT int zmq_join(void *socket, const char *group);
ZMQ_EXPORT int zmq_leave(void *socket, const char *group);
/* ZMQ_PEER: connects, and returns the routing id of whom it connects to; 0 on an error. */
ZMQ_EXPORT uint32_t zmq_connect_peer(void *socket, const char *endpoint);
/* ZMQ_PEER and ZMQ_SERVER: ends the connection with that peer for good. */
ZMQ_EXPORT int zmq_disconnect_peer(void *socket, uint32_t routing_id);

/* Options of the context. */
#define ZMQ_ZERO_COPY_RECV 10

/* Options of sockets: int unless said otherwise. */
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#define ZMQ_METADATA 95                             /* (set) string: X-name:value */
#define ZMQ_MULTICAST_LOOP 96
#define ZMQ_ROUTER_NOTIFY 97                        /* ZMQ_NOTIFY_CONNECT, ZMQ_NOTIFY_DISCONNECT */
#define ZMQ_XPUB_MANUAL_LAST_VALUE 98
#define ZMQ_SOCKS_USERNAME 99                       /* string */
#define ZMQ_SOCKS_PASSWORD 100                      /* string */
#define ZMQ_WSS_KEY_PEM 103                         /* (set) string: the server's private key */
#define ZMQ_WSS_CERT_PEM 104                        /* (set) string: the server's certificate */
#define ZMQ_WSS_TRUST_PEM 105                       /* (set) string: certificates to trust */
#define ZMQ_WSS_HOSTNAME 106                        /* (set) string: the server's name */
#define ZMQ_WSS_TRUST_SYSTEM 107
#define ZMQ_ONLY_FIRST_SUBSCRIBE 108
#define ZMQ_RECONNECT_STOP 109                      /* ZMQ_RECONNECT_STOP_* */
#define ZMQ_HELLO_MSG 110                           /* (set) bytes */
#define ZMQ_DISCONNECT_MSG 111                      /* (set) bytes */
#define ZMQ_PRIORITY 112
#define ZMQ_BUSY_POLL 113
#define ZMQ_HICCUP_MSG 114                          /* (set) bytes */
#define ZMQ_XSUB_VERBOSE_UNSUBSCRIBE 115
#define ZMQ_TOPICS_COUNT 116                        /* (get) */
#define ZMQ_NOTIFY_CONNECT 1
#define ZMQ_NOTIFY_DISCONNECT 2
#define ZMQ_RECONNECT_STOP_CONN_REFUSED 0x1
#define ZMQ_RECONNECT_STOP_HANDSHAKE_FAILED 0x2
#define ZMQ_RECONNECT_STOP_AFTER_DISCONNECT 0x4
/* Kept, and without effect here. */
#define ZMQ_LOOPBACK_FASTPATH 94
#define ZMQ_IN_BATCH_SIZE 101
#define ZMQ_OUT_BATCH_SIZE 102

/* Messages. */
#define ZMQ_MSG_PROPERTY_ROUTING_ID "Routing-Id"
#define ZMQ_MSG_PROPERTY_SOCKET_TYPE "Socket-Type"
#define ZMQ_MSG_PROPERTY_USER_ID "User-Id"
#define ZMQ_MSG_PROPERTY_PEER_ADDRESS "Peer-Address"
ZMQ_EXPORT int zmq_msg_init_buffer(zmq_msg_t *msg, const void *buffer, size_t size);
ZMQ_EXPORT int zmq_msg_set_routing_id(zmq_msg_t *msg, uint32_t routing_id);
ZMQ_EXPORT uint32_t zmq_msg_routing_id(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_set_group(zmq_msg_t *msg, const char *group);
/* Lives as long as the message. */
ZMQ_EXPORT const char *zmq_msg_group(zmq_msg_t *msg);

/* Monitoring with 64-bit events, and with events of several frames (version 2). */
#define ZMQ_EVENT_PIPES_STATS 0x10000
#define ZMQ_CURRENT_EVENT_VERSION 1
#define ZMQ_CURRENT_EVENT_VERSION_DRAFT 2
#define ZMQ_EVENT_ALL_V1 ZMQ_EVENT_ALL
#define ZMQ_EVENT_ALL_V2 (ZMQ_EVENT_ALL_V1 | ZMQ_EVENT_PIPES_STATS)
ZMQ_EXPORT int zmq_socket_monitor_versioned(
    void *socket, const char *endpoint, uint64_t events, int version, int type);
/* Sends ZMQ_EVENT_PIPES_STATS for each peer: the messages that wait for it, and from it. EAGAIN if
   there is no peer, EINVAL if the monitor did not ask for the event. */
ZMQ_EXPORT int zmq_socket_monitor_pipes_stats(void *socket);

/* ZMQ_ROUTER: ZMQ_POLLOUT if the peer with this routing id takes a message now, otherwise 0. */
ZMQ_EXPORT int
zmq_socket_get_peer_state(void *socket, const void *routing_id, size_t routing_id_size);

/* As zmq_poll(), with these signals blocked while it waits. Strict C (-std=c99) has no sigset_t. */
#ifdef SIG_BLOCK
ZMQ_EXPORT int
zmq_ppoll(zmq_pollitem_t *items, int count, long timeout, const sigset_t *signals);
#endif

/* A poller keeps what it waits for. */
#define ZMQ_HAVE_POLLER
typedef struct zmq_poller_event_t
{
    void *socket;
    zmq_fd_t fd;
    void *user_data;
    short events;
} zmq_poller_event_t;

ZMQ_EXPORT void *zmq_poller_new(void);
ZMQ_EXPORT int zmq_poller_destroy(void **poller);
ZMQ_EXPORT int zmq_poller_size(void *poller);
ZMQ_EXPORT int zmq_poller_add(void *poller, void *socket, void *user_data, short events);
ZMQ_EXPORT int zmq_poller_modify(void *poller, void *socket, short events);
ZMQ_EXPORT int zmq_poller_remove(void *poller, void *socket);
ZMQ_EXPORT int zmq_poller_add_fd(void *poller, zmq_fd_t fd, void *user_data, short events);
ZMQ_EXPORT int zmq_poller_modify_fd(void *poller, zmq_fd_t fd, short events);
ZMQ_EXPORT int zmq_poller_remove_fd(void *poller, zmq_fd_t fd);
ZMQ_EXPORT int zmq_poller_wait(void *poller, zmq_poller_event_t *event, long timeout);
/* Returns the number of events, EAGAIN when the time is over. */
ZMQ_EXPORT int
zmq_poller_wait_all(void *poller, zmq_poller_event_t *events, int count, long timeout);
/* Readable while something may be ready, for event loops. There is one once a socket of a type that
   is thread-safe (ZMQ_THREAD_SAFE) was added, otherwise EINVAL. */
ZMQ_EXPORT int zmq_poller_fd(void *poller, zmq_fd_t *fd);

#endif

/*
 * What libzmq does not have: docs/zeromq-options.md. All are int; set them before the socket is
 * bound or connected.
 */
#define ZMQ_SNDHWM_BYTES 10001         /* limit of bytes that wait for a peer; 0: none */
#define ZMQ_RCVHWM_BYTES 10002         /* limit of bytes that wait for the program; 0: none */
#define ZMQ_HANDSHAKES_MAX 10003       /* limit of connections in their handshake; 0: none */
#define ZMQ_LAST_VALUES 10004          /* topics whose last message new subscribers get */
#define ZMQ_CONFLATE_TOPICS 10005      /* 1: of what waits, the newest message of each topic */
#define ZMQ_CONFLATE_TOPICS_MAX 10006  /* limit of topics that wait for a peer, or from one */
#define ZMQ_SPIN_NS 10007              /* look for events so long before a wait sleeps; 0: not at all */

/* An event of monitors of version 2: messages to a peer begin to be dropped. */
#define ZMQ_EVENT_DROPS_BEGIN 0x20000

#undef ZMQ_EXPORT

#ifdef __cplusplus
}
#endif

#endif
