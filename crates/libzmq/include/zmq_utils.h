/* SPDX-License-Identifier: Apache-2.0 */
/* Older programs include this for the functions of time and threads, which zmq.h declares now. */

#ifndef TIDEWIRE_ZMQ_UTILS_H
#define TIDEWIRE_ZMQ_UTILS_H
/* Some programs ask whether the header has been read already by its usual guard. */
#define __ZMQ_UTILS_H_INCLUDED__

#include "zmq.h"

#endif
